"""``grpo-doctor analyze``: diagnoses logs on disk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from ..config import Config
from ..diagnosis.check import Severity
from . import common

if TYPE_CHECKING:
    from ..diagnosis.catalogue import Catalogue
    from ..diagnosis.verdict import Diagnosis
    from ..run import Run

Paths = Annotated[
    list[Path],
    typer.Argument(
        help="Log files, run folders, or addresses such as wandb://entity/project/run; - reads standard input.",
        show_default=False,
    ),
]


@common.configured(common.CHECKS, common.LOGS, common.LIMITS)
def analyze(
    paths: Paths,
    output_format: common.OutputFormat = "text",
    output_file: common.OutputFile = None,
    report: common.MoreReports = None,
    figures: Annotated[
        Path | None,
        typer.Option("--figures", help="Write the charts to this folder as SVG and PNG; Markdown reports embed them."),
    ] = None,
    full: common.Full = False,
    static: common.Static = False,
    samples: common.Samples = True,
    color: common.Color = None,
    run_: common.Picked = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show mapped keys, skipped checks and unused keys.")
    ] = False,
    gpu_cost: Annotated[
        float | None,
        typer.Option("--gpu-cost", min=0, help="Price per GPU-hour in dollars: show what a failing run has cost."),
    ] = None,
    *,
    settings: Config,
) -> None:
    """Diagnoses logs: what happened, when it began, why, how certain that is, and what to change.

    Exit codes: 0 no finding at or above --fail-on, 1 findings, 2 wrong usage or unreadable input, 3 input not judged, 4
    internal error.
    """
    with common.plain_errors():
        options = common.options(
            settings,
            output_format,
            output_file,
            color,
            samples=samples,
            verbose=verbose,
            figures=figures,
            static=static,
            full=full or verbose,
            rest="--full",
            gpu_cost=gpu_cost,
        )
        outcome = diagnose_paths(paths, settings, run_)
        inputs = [*outcome.files, *common.settings_file(settings)]
        common.write(outcome.diagnoses, output_format, output_file, report or [], options, inputs)
    raise typer.Exit(exit_code(outcome, Severity.of(settings.fail_on)))


class Outcome(NamedTuple):
    """The diagnoses of runs, the number of unreadable (or too large) inputs, and the number of internal errors.

    ``without_run`` lists inputs that contain no run, ``not_read`` counts skipped files that may be logs, and ``files``
    lists the files that were read.
    """

    diagnoses: list[Diagnosis]
    unreadable: int = 0
    broken: int = 0
    without_run: tuple[Path, ...] = ()
    not_read: int = 0
    files: Sequence[Path] = ()


def diagnose_paths(paths: list[Path], config: Config, which: str | None = None) -> Outcome:
    """Read and diagnose every run at these paths, or only the run with this number or name. Report unreadable files."""
    from ..readers import ReadError, survey
    from ..readers.mapping import refuse_unknown_keys

    catalogue = common.chosen(config)
    diagnoses: list[Diagnosis] = []
    unreadable = broken = not_read = picked = 0
    without_run: list[Path] = []
    sources: list[str] = []
    keys: set[str] = set()
    files = list(paths)
    for path in {path.resolve(): path for path in paths}.values():
        try:
            found = survey(path, config.map)
        except ReadError as error:
            common.note(str(error))
            unreadable += 1
            continue
        files += [Path(answer.source) for answer in found.answers if answer.fate != "no log"]
        unreadable += len(found.unreadable)
        broken += len(found.failed)
        not_read += len(found.not_read)
        without_run += [] if found.runs or found.unreadable or found.failed else [path]
        common.tell(path, found)
        _say_where_configurations_go(path, found.runs)
        keys |= {key for run in found.runs for key in run.keys}
        sources += [run.source for run in found.runs]
        runs = common.picked(found.runs, which)
        picked += len(runs)
        judged = diagnose_runs(runs, config, catalogue)
        diagnoses += judged.diagnoses
        unreadable += judged.unreadable
        broken += judged.broken
    if sources and not picked:
        raise common.not_picked(which, sources)
    if diagnoses and not unreadable:
        refuse_unknown_keys(config.map, keys)
    return Outcome(diagnoses, unreadable, broken, tuple(without_run), not_read, files)


def _say_where_configurations_go(path: Path, runs: list[Run]) -> None:
    """Print a hint for scripts and configurations, which ``preflight`` reads."""
    if any(len(run) for run in runs):
        return
    from ..preflight.reading import MARKDOWN, SUFFIXES

    if path.suffix in SUFFIXES or (path.suffix in MARKDOWN and _configures(path)):
        common.note(f"{path}: not a log; `grpo-doctor preflight {path}` reads configurations")


def _configures(path: Path) -> bool:
    """Return whether a document configures an RL run."""
    from ..preflight.reading import read
    from ..readers import ReadError

    try:
        return any(found.run_type == "rl" for found in read(path))
    except ReadError:
        return False


def diagnose_runs(runs: list[Run], config: Config, catalogue: Catalogue) -> Outcome:
    """Diagnose runs with the settings and thresholds of the command. Report runs that cannot be judged."""
    from ..advisories.in_logs import diagnose_with_advisories
    from ..limits import OverBudgetError

    diagnoses = []
    unreadable = broken = 0
    for run in runs:
        run.settings.update(config.settings)
        try:
            diagnoses.append(diagnose_with_advisories(run, catalogue, config.thresholds))
        except OverBudgetError as error:
            common.note(f"{run.source}: {error}")
            unreadable += 1
        except Exception as error:  # noqa: BLE001 - an internal error on one run must not stop the others
            common.report_bug(error, run.source)
            broken += 1
    return Outcome(diagnoses, unreadable, broken)


def exit_code(outcome: Outcome, fail_on: Severity) -> int:
    """Return the first exit code that applies: 1 for findings, 4 after an internal error, 2 for unreadable input, 3 for
    unjudged input, or 0. An input without a run counts as unjudged."""
    diagnoses = outcome.diagnoses
    short = any(d.verdict == "unjudged" or (d.run_type == "probe" and d.verdict == "unproven") for d in diagnoses)
    return common.exit_code(
        findings=any(d.worst is not None and d.worst >= fail_on for d in diagnoses),
        broken=outcome.broken,
        unreadable=outcome.unreadable,
        unjudged=outcome.without_run or not diagnoses or short,
    )
