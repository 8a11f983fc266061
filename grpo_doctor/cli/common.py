"""Code that all commands share: exit codes, one-line errors, and common options."""

from __future__ import annotations

import errno
import json
import os
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeAlias, get_args

import typer
from msgspec import structs

from ..config import Config, ConfigError
from ..config import read as read_config
from ..diagnosis.catalogue import Catalogue, load, load_family, report_names
from ..diagnosis.check import CheckError, Severity
from ..diagnosis.trust import trusted
from ..diagnosis.wording import counted
from ..extras import install
from ..fault_isolation import bug
from ..limits import Budget, allow, spending
from ..readers import ReadError
from ..readers.mapping import refuse_unknown_fields
from ..readers.remote import address_of
from ..readers.settings import declared as setting_name
from ..readers.settings import known_settings, setting_value
from ..report import output
from ..report.model import COUNT_OF_GPUS, Options, UnknownFormatError, render, shortened
from ..report.redaction import inert, one_line
from ..series.derived import MEANINGS

if TYPE_CHECKING:
    from ..diagnosis.verdict import Diagnosis
    from ..readers.folder import Survey
    from ..run import Run

CLEAN, FINDINGS, WRONG, UNJUDGED, BROKEN = 0, 1, 2, 3, 4
"""Exit codes 0 to 4: no finding at or above --fail-on, findings, wrong usage or unreadable input, input not judged,
internal error."""


def exit_code(*, findings: object, broken: object = False, unreadable: object = False, unjudged: object) -> int:
    """Return the exit code of the first outcome that occurred."""
    occurred = ((findings, FINDINGS), (broken, BROKEN), (unreadable, WRONG), (unjudged, UNJUDGED))
    return next((code for outcome, code in occurred if outcome), CLEAN)


def worst(*codes: int) -> int:
    """Return the exit code with the highest priority, in the order 1, 4, 2, 3."""
    return min(codes, key=(FINDINGS, BROKEN, WRONG, UNJUDGED, CLEAN).index, default=CLEAN)


def codes(incomplete: str) -> list[str]:
    """Return the codes, names and families of checks with which a shell can complete a word."""
    known = load().checks.values()
    words = dict.fromkeys([*(c.code for c in known), *(c.name for c in known), *(c.family for c in known)])
    return [word for word in words if word.lower().startswith(incomplete.lower())]


def formats(incomplete: str) -> list[str]:
    """Return the report formats with which a shell can complete a word."""
    return [name for name in report_names() if name.startswith(incomplete)]


def runs(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Return the numbers and names of runs with which a shell can complete a word, if the preceding logs can be read
    within a second. Shells insert completions without quotes. A name that needs quotes is therefore offered only as the
    description of its number."""
    from ..readers import survey

    logs = [path for path in map(Path, ctx.args) if path.exists()]  # excludes standard input and addresses
    allow(Budget(seconds=1))
    try:
        with spending():
            names = shortened([run.source for log in logs for run in survey(log).runs])
    except ReadError:
        return []
    words = [(str(n), name) for n, name in enumerate(names, 1) if len(logs) == 1]
    words += [(name, "") for name in names if shlex.quote(name) == name]
    return [(word, told) for word, told in words if word.startswith(incomplete)]


FORMATS = ", ".join(report_names())
"""The names of the report formats, for the help texts of options."""

Select: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--select", help="Run only these checks (code, name, family); repeatable.", autocompletion=codes),
]
Ignore: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--ignore", help="Skip these checks (code, name, family); repeatable.", autocompletion=codes),
]
Preview: TypeAlias = Annotated[
    bool, typer.Option("--preview", help="Enable preview checks, which no real run has triggered yet.")
]
OutputFormat: TypeAlias = Annotated[
    str, typer.Option("--output-format", "-f", help=f"Format of the report: {FORMATS}.", autocompletion=formats)
]
FailOn: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--fail-on",
        help="Lowest severity that sets exit code 1: info, warning, error or critical.",
        show_default="error",
    ),
]
OutputFile: TypeAlias = Annotated[
    Path | None, typer.Option("--output-file", "-o", help="Write the report to this file.")
]
MoreReports: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--report", help="FORMAT=FILE: an additional report; repeatable.", autocompletion=formats),
]
Color: TypeAlias = Annotated[
    bool | None, typer.Option("--color/--no-color", help="Colour the text output.", show_default="on a terminal")
]
Samples: TypeAlias = Annotated[bool, typer.Option("--samples/--no-samples", help="Show response texts.")]
Full: TypeAlias = Annotated[bool, typer.Option("--full", help="Text: show all details instead of one screen.")]
Static: TypeAlias = Annotated[bool, typer.Option("--static", help="HTML without JavaScript.")]
Force: TypeAlias = Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")]
Mapped: TypeAlias = Annotated[
    list[str] | None, typer.Option("--map", help="KEY=FIELD: read this log key as this field; repeatable.")
]
Declared: TypeAlias = Annotated[
    list[str] | None, typer.Option("--set", help="NAME=VALUE: a setting missing from the log; repeatable.")
]
Picked: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--run",
        metavar="NUMBER|NAME",
        help="Only this run: its number, starting at 1, or its name as in the list of several runs.",
        show_default="all",
        autocompletion=runs,
    ),
]
ConfigFile: TypeAlias = Annotated[
    Path | None,
    typer.Option("--config", help="TOML settings file to use instead of grpo-doctor.toml or pyproject.toml."),
]
TrustChecks: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--trust-checks",
        help="Execute the check folders that the configuration file names.",
        envvar="GRPO_DOCTOR_TRUST_CHECKS",
    ),
]


Seconds: TypeAlias = Annotated[
    float | None,
    typer.Option(
        "--budget-seconds",
        help="Time limit per input, in seconds.",
        min=0,
        envvar="GRPO_DOCTOR_BUDGET_SECONDS",
        show_default="600",
    ),
]
Megabytes: TypeAlias = Annotated[
    float | None,
    typer.Option(
        "--budget-megabytes",
        help="Memory limit per input, in megabytes.",
        min=0,
        envvar="GRPO_DOCTOR_BUDGET_MEGABYTES",
        show_default="2048",
    ),
]


def say(line: str, *, err: bool = False) -> None:
    """Print one line, removing secrets, terminal escapes and line breaks."""
    typer.echo(line[: len(line) - len(line.lstrip())] + one_line(line), err=err)


def note(message: str) -> None:
    """Print one line on stderr, after the name of the tool."""
    say(f"grpo-doctor: {message}", err=True)


def fail(message: str) -> NoReturn:
    """Print one line on stderr and exit with code 2."""
    note(message)
    raise typer.Exit(WRONG)


def report_bug(error: Exception, where: str) -> None:
    """Report an internal error, its location, and how to report it."""
    say_bug(bug(error), where)


def say_bug(what: str, where: str) -> None:
    """Report an internal error, given the description from `grpo_doctor.fault_isolation.bug`."""
    note(
        f"{where}: this is a bug in grpo-doctor, not in your run: {what}; please report it with the output of "
        "`grpo-doctor convert --anonymize`"
    )


@contextmanager
def plain_errors() -> Iterator[None]:
    """Turn user errors into one line and exit code 2; let internal errors propagate."""
    try:
        yield
    except (ReadError, CheckError, ConfigError, UnknownFormatError) as error:
        fail(str(error))
    except BrokenPipeError:  # the reader closed the pipe: `Commands` exits quietly
        raise
    except OSError as error:  # a full disk, a folder without permission, or a file that became a folder
        if _own_mistake(error):
            raise
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        more = f"; free some space, or set TMPDIR to replace {tempfile.gettempdir()}" if full else ""
        fail(f"{error.filename or 'writing'}: {error.strerror or error}{more}")


def _own_mistake(error: OSError) -> bool:
    """Return whether an OSError is an internal error, caused by a file of the package itself or by a wrong system
    call."""
    if error.filename is None:
        return error.errno in (errno.EBADF, errno.EINVAL, errno.ESPIPE)
    return isinstance(error.filename, str) and Path(error.filename).is_relative_to(Path(__file__).parents[1])


CHECKS = {
    **{"fail_on": FailOn, "select": Select, "ignore": Ignore, "preview": Preview},
    **{"config": ConfigFile, "trust_checks": TrustChecks},
}
LOGS = {"map_": Mapped, "set_": Declared}
LIMITS = {"seconds": Seconds, "megabytes": Megabytes}


def configured(*groups: Mapping[str, Any], without: str = "") -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add these groups of options to a command, and pass the resulting `Config` to the command as ``settings``."""
    options = {name: option for group in groups for name, option in group.items() if name != without}

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def configured_command(**given: Any) -> None:
            with plain_errors():
                merged = settings(**{name: given.pop(name) for name in options})
            command(**given, settings=merged)

        own = [p for p in signature(command, eval_str=True).parameters.values() if p.name != "settings"]
        shared = [
            Parameter(
                name, Parameter.KEYWORD_ONLY, annotation=option, default=False if get_args(option)[0] is bool else None
            )
            for name, option in options.items()
        ]
        parameters = [*(p.replace(kind=Parameter.KEYWORD_ONLY) for p in own), *shared]
        configured_command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        return configured_command

    return decorate


def settings(
    *,
    config: Path | None,
    select: list[str] | None = None,
    ignore: list[str] | None = None,
    map_: list[str] | None = None,
    set_: list[str] | None = None,
    fail_on: str | None = None,
    seconds: float | None = None,
    megabytes: float | None = None,
    preview: bool = False,
    trust_checks: bool = False,
) -> Config:
    """Merge the settings file with the command line, which takes precedence, and set the limits per input.

    Raises `ConfigError`.
    """
    merged = read_config(config)
    merged.select = select or merged.select
    merged.ignore = ignore or merged.ignore
    merged.fail_on = fail_on or merged.fail_on
    merged.preview = preview or merged.preview
    merged.trust_checks = trust_checks
    if merged.fail_on.upper() not in Severity.__members__:
        raise ConfigError(f"--fail-on {merged.fail_on}: choose info, warning, error or critical")
    merged.map |= dict(pair("--map", word) for word in map_ or [])
    refuse_unknown_fields(merged.map)
    merged.settings |= dict(_setting(name, value) for name, value in assigned("--set", set_).items())
    most, origin = Budget(), merged.origin
    merged.budget_seconds = _limit(origin, "budget-seconds", seconds, merged.budget_seconds, most.seconds)
    merged.budget_megabytes = _limit(origin, "budget-megabytes", megabytes, merged.budget_megabytes, most.megabytes)
    allow(merged.budget())
    return merged


def _limit(where: str, name: str, *told: float | None) -> float:
    """Return the first given limit. Raises `ConfigError` if the limit is negative or NaN."""
    value = next(value for value in told if value is not None)
    if not value >= 0:
        raise ConfigError(f"{where}: {name} {value:g}: write a number of 0 or more")
    return value


SHORT_NAMES = {"gpus": "world_size", "batch_size": "per_device_train_batch_size", "lora": "use_peft"}
"""Short names of settings that ``--set`` accepts."""


def _setting(name: str, value: Any) -> tuple[str, Any]:
    """Return the setting under the name that checks use. Raises `ConfigError` for an unknown name or a wrong type."""
    known = known_settings() | MEANINGS.keys() | {COUNT_OF_GPUS}
    name = SHORT_NAMES.get(name, name)
    found = name if name in known else setting_name(name)
    if found is None:
        near = get_close_matches(name, known, 1, 0.5)
        raise ConfigError(f"--set {name}: no check uses this setting{f'; did you mean {near[0]}?' if near else ''}")
    if setting_value(found, value) is None:
        raise ConfigError(f"--set {name}={value}: expected a number, true or false")
    return found, value


def say_suppressions(config: Config) -> None:
    """Print the active suppressions to stderr, for commands whose reports do not list them."""
    for one in config.suppressions():
        note(f"{one.kind}: {one.text}")


def settings_file(config: Config) -> list[Path]:
    """Return the settings file, or None."""
    return [] if config.origin == Config().origin else [Path(config.origin)]


def tell(path: Path, found: Survey) -> None:
    """Report on stderr how many files of an input were read, and which files could not be read."""
    place = address_of(path) or path
    for answer in found.failed:
        say_bug(answer.why, answer.source)
    if path.is_dir() or len(found.answers) > 1:
        note(f"{place}: {found.words()}")
    for line in found.named():
        note(line)
    if not found.runs and not found.failed:
        note(f"{place}: no training log found; pass the log file itself")


def picked(runs: list[Run], word: str | None) -> list[Run]:
    """Return the run with this number (starting at 1), or the runs with this name, as printed in a list of runs. Return
    all runs if no word is given."""
    if word is None:
        return runs
    if word.isdecimal():
        return runs[int(word) - 1 : int(word)]
    return [run for run in runs if f"/{run.source}".endswith(f"/{word}")]


def not_picked(word: str | None, sources: Sequence[str]) -> ConfigError:
    """Return the error for a ``--run`` option that selects no run; the message lists the runs."""
    names = "; ".join(shortened(sources))
    return ConfigError(f"--run {word or 'NUMBER or NAME'}: the input has {counted(len(sources), 'run')}: {names}")


def pair(option: str, word: str) -> tuple[str, str]:
    key, equals, value = word.partition("=")
    if not (key and equals and value):
        raise ConfigError(f"{option} {word}: write {option} NAME=VALUE")
    return key, value


def report_file(word: str) -> tuple[str, Path]:
    """Parse ``FORMAT=FILE`` of ``--report``. Raises `ConfigError` for any other form."""
    kind, equals, path = word.partition("=")
    if not (kind and equals and path):
        ending = Path(word).suffix[1:]
        asked = (
            f"{ending if ending in report_names() else 'FORMAT'}={word}"
            if word not in report_names()
            else f"{word}=FILE"
        )
        raise ConfigError(f"--report {word}: write --report {asked}")
    return kind, Path(path)


def assigned(option: str, words: list[str] | None) -> dict[str, Any]:
    """Parse ``NAME=VALUE`` words. A value that is not valid JSON is text. Raises `ConfigError`."""
    return {name: _value(value) for name, value in (pair(option, word) for word in words or [])}


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def options(config: Config, name: str, file: Path | None, color: bool | None, **chosen: Any) -> Options:
    """Return the options of a report in this format. By default, text has colours only on a terminal."""
    import shutil

    terminal = file is None and sys.stdout.isatty() and "NO_COLOR" not in os.environ
    width = shutil.get_terminal_size((100, 24)).columns if file is None else 100
    chosen = {"fail_on": config.fail_on, "suppressions": config.suppressions()} | chosen
    colored = name == "text" and (terminal if color is None else color)
    return Options(color=colored, width=max(60, min(width, 140)), **chosen)


def write(
    diagnoses: list[Diagnosis],
    name: str | None,
    file: Path | None,
    more: list[str],
    options: Options,
    inputs: Iterable[Path] = (),
) -> None:
    """Write all requested reports, without ever overwriting an input file."""
    read = [*inputs, *(d.run.path for d in diagnoses if d.run.path is not None)]
    quiet = bool(options.refresh)  # the page is rewritten after every poll
    write_as(
        lambda kind, path: render(kind, diagnoses, _with_figures(options, path)), name, file, more, read, quiet=quiet
    )
    if options.figures is not None:
        _save_figures(diagnoses, options.figures)


def write_as(
    rendering: Callable[[str, Path | None], str],
    name: str | None,
    file: Path | None,
    more: list[str],
    inputs: Iterable[Path],
    *,
    quiet: bool = False,
) -> None:
    """Write the output of ``rendering`` for each requested format and path. With ``quiet``, the names of the files are
    not printed."""
    first = [] if name is None else [(name, file)]
    jobs = [*first, *map(report_file, more)]
    refuse_inputs((path for _, path in jobs), inputs)
    rendered = [(kind, path, rendering(kind, path)) for kind, path in jobs]
    for kind, path, text in rendered:
        if path is None:
            # the text has escapes only if colours were requested, even in a pipe
            typer.echo(text if kind == "github" else inert(text), nl=bool(text), color=True)
        else:
            replace_file(path, text + "\n")
            if not quiet:
                note(f"wrote {path}")


def _with_figures(options: Options, path: Path | None) -> Options:
    """Return the options for a report at ``path``, with the folder of the figures relative to the report."""
    if options.figures is None or path is None:
        return options
    return structs.replace(options, figures=Path(os.path.relpath(options.figures, path.parent)))


def _save_figures(diagnoses: list[Diagnosis], folder: Path) -> None:
    from ..report.figures import save

    try:
        for _ in save(diagnoses, folder):
            pass
    except ModuleNotFoundError as error:
        raise ConfigError(f"--figures: {error.name} is not installed; {install('figures')}") from None
    except OSError as error:
        raise ConfigError(f"{folder}: figures cannot be written: {error.strerror}") from None


def replace_file(path: Path, text: str, *, named: bool = True) -> None:
    """Write a file with `output.replacing`. Raises `ConfigError`."""
    with plain_writing(path):
        output.replace(path, text, named=named)


def new_file(path: Path, text: str, hint: str) -> None:
    """Write a new file. Raises `ConfigError` with a hint if the file already exists."""
    try:
        with plain_writing(path):
            output.create(path, text)
    except ConfigError:
        if os.path.lexists(path):
            raise ConfigError(f"{path} already exists; {hint}") from None
        raise


@contextmanager
def plain_writing(path: Path) -> Iterator[None]:
    """Turn an OSError into a `ConfigError` that names the file, except for a broken pipe."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror}") from None


def refuse_inputs(outputs: Iterable[Path | None], inputs: Iterable[Path]) -> None:
    """Raise `ConfigError` if an output file is an input file."""
    inputs = list(inputs)
    for path in outputs:
        if path is not None and (found := output.same(path, inputs)) is not None:
            raise ConfigError(f"{path}: would overwrite the input {found}; choose another file")


def everything(file: Path | None, trust_checks: bool, compiled: bool = True) -> Catalogue:
    """Return all checks, including those in the user's folders."""
    config = read_config(file)
    config.trust_checks = trust_checks
    return load(trusted(config), compiled=compiled)


def chosen(config: Config, family: str = "") -> Catalogue:
    """Return the checks that the settings select. If no setting refers to another family, only the given family is
    loaded."""
    if family and not (config.select or config.ignore or config.checks or config.thresholds):
        return load_family(family).select(preview=config.preview)
    catalogue = load(trusted(config))
    unknown = [code for code in config.thresholds if code not in catalogue.checks]
    if unknown:
        raise ConfigError(f"{config.origin}: thresholds.{unknown[0]}: no check has this code; see `grpo-doctor checks`")
    for code, limits in config.thresholds.items():
        for name, value in limits.items():
            try:
                catalogue.checks[code].refuse_threshold(name, value)
            except ValueError as error:
                raise ConfigError(f"{config.origin}: thresholds.{code}.{name}: {error}") from None
    return catalogue.select(config.select, config.ignore, config.preview)
