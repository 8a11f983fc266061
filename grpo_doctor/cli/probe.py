"""``grpo-doctor probe``: tests a trainer's own code with crafted inputs; ``--init`` writes an adapter file."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeAlias

import typer

from ..config import Config, ConfigError
from ..diagnosis.check import Severity
from ..diagnosis.wording import counted
from ..extras import install
from ..report.redaction import one_line
from . import common
from .analyze import Outcome, exit_code

if TYPE_CHECKING:
    from ..diagnosis.verdict import Diagnosis
    from ..probes import Adapter


AdapterFile: TypeAlias = Annotated[
    Path, typer.Argument(help="Adapter file, or with --trl a file of GRPOConfig arguments. It is executed.")
]
Init: TypeAlias = Annotated[bool, typer.Option("--init", help="Write an adapter file to fill in; nothing is run.")]
Trl: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--trl",
        help="Model (path or Hub id): probe TRL's trainer with this model and the GRPOConfig arguments in ADAPTER.",
    ),
]
Discover: TypeAlias = Annotated[
    bool, typer.Option("--discover", help="Read a trainer file and write an adapter for it, without executing it.")
]
Canary: TypeAlias = Annotated[
    bool, typer.Option("--canary", help="Train for a few steps to test whether the loop learns a rewarded token.")
]
Keep: TypeAlias = Annotated[
    Path | None, typer.Option("--keep", help="Write the findings as pytest cases to this file.")
]
Device: TypeAlias = Annotated[str | None, typer.Option("--device", help="cpu, cuda, …", show_default="cpu")]
TimeLimit: TypeAlias = Annotated[
    float, typer.Option("--time-limit", help="Time limit in seconds for each probe and for the imports.")
]
Verbose: TypeAlias = Annotated[bool, typer.Option("--verbose", "-v", help="Show skipped probes with the reasons.")]


@common.configured(common.CHECKS, without="preview")
def probe(
    adapter: AdapterFile,
    init: Init = False,
    trl: Trl = None,
    discover: Discover = False,
    canary: Canary = False,
    keep: Keep = None,
    device: Device = None,
    time_limit: TimeLimit = 60.0,
    output_format: common.OutputFormat = "text",
    output_file: common.OutputFile = None,
    report: common.MoreReports = None,
    color: common.Color = None,
    full: common.Full = False,
    verbose: Verbose = False,
    *,
    settings: Config,
) -> None:
    """Calls your own padding, mask, template, penalty, advantage and loss code with crafted inputs.

    This EXECUTES the adapter file and its imports: probe only code that you trust. Nothing is trained. Weights,
    optimizer and random state are restored.

    With --canary, the whole loop trains for 24 steps on a reward for one token, then for 24 steps on the same rewards
    in shuffled order. Everything is restored afterwards. The exit code is 1 if the token's share does not rise.

    Exit codes: 0 nothing at or above --fail-on, 1 findings, 2 wrong usage or an unusable adapter, 3 nothing judged.
    Exit code 3 also means that your code raised an exception and nothing else was found.
    """
    if init:
        new_adapter(adapter)
        return
    if discover:
        _discover(adapter)
        return
    if canary:
        _canary(adapter, trl, device, time_limit)
    with common.plain_errors():
        options = common.options(
            settings,
            output_format,
            output_file,
            color,
            samples=False,
            verbose=verbose,
            full=full or verbose,
            rest="--full",
        )
        diagnosis = _probed(adapter, trl, device, time_limit, settings)
        if keep is not None:
            _keep(keep, diagnosis, adapter, trl)
        common.write([diagnosis], output_format, output_file, report or [], options, [adapter])
    raise typer.Exit(exit_code(Outcome([diagnosis]), Severity.of(settings.fail_on)))


def _probed(path: Path, trl: str | None, device: str | None, time_limit: float, settings: Config) -> Diagnosis:
    """Run the probes on the adapter of a file; add the known bugs of the installed versions."""
    try:
        from ..probes import run_probes
    except ModuleNotFoundError as error:
        raise ConfigError(f"probing needs {error.name}; {install('train')}") from None
    catalogue, thresholds = common.chosen(settings), settings.thresholds
    with _refused(), redirect_stdout(sys.stderr):  # the trainer's own output must not be part of the report
        subject = _load(path, trl, device, time_limit)
        diagnosis = run_probes(
            subject, catalogue=catalogue, thresholds=thresholds, time_limit=time_limit, device=device
        )
        diagnosis.notes += _known_bugs(subject.settings, "trl" if trl else None)
    return diagnosis


def _canary(path: Path, trl: str | None, device: str | None, time_limit: float) -> NoReturn:
    """Print the result of the canary test, and end the command."""
    from ..probes import AdapterError
    from ..probes.canary import canary as learnt
    from ..probes.runner import where

    with _refused(), redirect_stdout(sys.stderr):
        subject = _load(path, trl, device, time_limit)
        try:
            found = learnt(subject, device=device)
        except AdapterError:
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001  (the user's code may raise anything, or leave)
            raise AdapterError(f"{path} {where(error)}") from None
    typer.echo(one_line(str(found)))
    raise typer.Exit(common.CLEAN if found.learned else common.FINDINGS)


def _known_bugs(settings: Mapping[str, Any], framework: str | None) -> list[str]:
    """Return one line for each known bug of the installed versions that these settings trigger."""
    from ..advisories import matches
    from ..advisories.finding import lines
    from ..advisories.versions import applicable, installed

    return lines(matches(applicable(installed(), framework), settings))


@contextmanager
def _refused() -> Iterator[None]:
    """End the command with the error message of an unusable adapter."""
    from ..probes import AdapterError

    try:
        yield
    except AdapterError as error:
        common.fail(str(error))


def _keep(path: Path, diagnosis: Diagnosis, adapter: Path, trl: str | None) -> None:
    """Write the findings as tests, and print the number of tests."""
    from ..probes.saved_cases import keep

    with _refused():
        kept = keep(path, diagnosis.findings, adapter, trl)
    typer.echo(
        one_line(f"wrote {counted(kept, 'finding')} as tests to {path}" if kept else "no findings to write as tests"),
        err=True,
    )


def _load(path: Path, trl: str | None, device: str | None, time_limit: float) -> Adapter:
    """Load the adapter of a file; report an error in the file in one line, with its location."""
    from ..probes import load_adapter
    from ..probes.runner import loaded

    if trl is None:
        return loaded(lambda: load_adapter(path), path, time_limit)
    from ..probes.adapters import trl_adapter_from

    return loaded(lambda: trl_adapter_from(path, trl, device=device or "cpu"), path, time_limit)


def _discover(path: Path) -> None:
    """List the functions that look like entry points, and write an adapter file next to the trainer."""
    from ..probes.discover import adapter_for
    from ..probes.discover import discover as discovered
    from ..probes.script import Script

    with _refused():
        script = Script(path)
    found = discovered(script)
    if not found:
        common.fail(
            f"{path}: no function looks like an entry point; "
            "`grpo-doctor probe --init adapter.py` lists the entry points"
        )
    for one in found:
        called = f"{one.name}({', '.join(one.parameters)})"
        typer.echo(one_line(f"{one.file.name}:{one.line}: {called} looks like {one.seam}"))
    target = path.with_name(f"adapter_{path.stem}.py")
    with common.plain_errors():
        common.new_file(target, adapter_for(script, found), "remove it, or fill it in and probe it")
    typer.echo(one_line(f"wrote {target}; complete the comments marked <-, then: grpo-doctor probe {target}"))


def new_adapter(
    path: Annotated[Path, typer.Argument(help="File to write.")] = Path("adapter.py"),
    force: common.Force = False,
) -> None:
    """Writes an adapter template. Delete the functions that you do not need, and connect the others to your trainer."""
    template = Path(__file__).parent.parent / "probes" / "template.py"
    text = template.read_text(encoding="utf-8")
    with common.plain_errors():
        common.replace_file(path, text) if force else common.new_file(path, text, "--force overwrites it")
    typer.echo(one_line(f"wrote {path}; fill it in, then run: grpo-doctor probe {path}"))
