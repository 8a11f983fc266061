"""``grpo-doctor compare``: compares runs and reports whether a change helped."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer

from ..config import Config, ConfigError
from ..diagnosis.check import Severity
from . import common
from .analyze import diagnose_paths

if TYPE_CHECKING:
    from ..compare import Arm, Comparison
    from ..diagnosis.verdict import Diagnosis

By: TypeAlias = Literal["step", "tokens"]


@common.configured(common.CHECKS, common.LOGS)
def compare(
    base: Annotated[
        str, typer.Argument(help="The run to compare with: a log or folder; LOG#NAME selects one run in a log.")
    ],
    new: Annotated[
        list[str] | None,
        typer.Argument(
            help="The runs to compare with BASE; runs with identical settings count as seeds of one setting."
        ),
    ] = None,
    also: Annotated[
        list[str] | None, typer.Option("--base", help="Another seed of BASE's settings; repeatable.")
    ] = None,
    by: Annotated[By, typer.Option("--by", help="How the runs are aligned.")] = "step",
    weights: Annotated[
        tuple[Path, Path] | None, typer.Option("--weights", help="Checkpoints (safetensors) of BASE and of NEW.")
    ] = None,
    output_format: common.OutputFormat = "text",
    output_file: common.OutputFile = None,
    report: common.MoreReports = None,
    samples: common.Samples = True,
    color: common.Color = None,
    *,
    settings: Config,
) -> None:
    """Compares runs: changed settings, where they diverge, how much they differ, findings that appeared or disappeared.

    Exit codes: 0 NEW is not worse, 1 NEW is worse or has new findings at or above --fail-on. Error codes: 2 wrong usage
    or unreadable input, 3 nothing could be compared, 4 internal error.
    """
    from ..compare.summary import render

    with common.plain_errors():
        options = common.options(settings, output_format, output_file, color, samples=samples)
        common.say_suppressions(settings)
        found, failed = compare_paths([base, *(also or [])], new or [], settings, by, weights)
        read = [Path(word) for word in (base, *(also or []), *(new or []))]
        read += [d.run.path for c in found for d in (*c.base.diagnoses, *c.new.diagnoses) if d.run.path is not None]
        common.write_as(lambda kind, _: render(kind, found, options), output_format, output_file, report or [], read)
    raise typer.Exit(common.worst(failed, exit_code(found, Severity.of(settings.fail_on))))


def compare_paths(
    base: Sequence[str],
    new: Sequence[str],
    config: Config,
    by: By = "step",
    weights: tuple[Path, Path] | None = None,
) -> tuple[list[Comparison], int]:
    """Compare BASE with every other setting. Return the comparisons, and the exit code for unreadable inputs.

    If BASE's input contains several settings and NEW is not given, the first setting is BASE. Raises `ConfigError`.
    """
    from ..compare import arms_of

    sides = [[_diagnoses(word, config) for word in words] for words in (base, new)]
    failed = common.worst(*(code for side in sides for _, code in side))
    own = arms_of([d for diagnoses, _ in sides[0] for d in diagnoses])
    if new:
        _single(" ".join(base), own)
    arms = [*own[1:], *_arms([diagnoses for diagnoses, _ in sides[1]])]
    if not own or not arms:
        if failed:
            return [], failed
        raise ConfigError(
            f"{base[0]}: contains {'only one setting' if own else 'no run'}; name a second run to compare"
        )
    return compare_arms(own[0], arms, config, by, weights), failed


def compare_arms(
    base: Arm, arms: Sequence[Arm], config: Config, by: By = "step", weights: tuple[Path, Path] | None = None
) -> list[Comparison]:
    """Compare BASE with each arm, with the checks and thresholds of the command. Raises `ConfigError`."""
    from ..compare import WeightsError
    from ..compare import compare as compare_two

    catalogue = common.chosen(config)
    try:
        return [
            compare_two(base, arm, by=by, weights=weights, catalogue=catalogue, thresholds=config.thresholds)
            for arm in arms
        ]
    except WeightsError as error:
        raise ConfigError(str(error)) from None


def compare_with(against: str, diagnoses: Sequence[Diagnosis], config: Config) -> tuple[list[Comparison], int]:
    """Compare the named run with diagnosed runs. Raises `ConfigError`."""
    from ..compare import arms_of

    known, failed = _diagnoses(against, config)
    own = arms_of(known)
    _single(f"--against {against}", own)
    return (compare_arms(own[0], _arms([[d] for d in diagnoses]), config) if own else []), failed


def _single(given: str, own: Sequence[Arm]) -> None:
    """Raise `ConfigError` if the input for BASE contains several settings. The message lists the names of the
    settings."""
    if len(own) > 1:
        more = ", …" if len(own) > 3 else ""
        names = f"{', '.join(arm.name for arm in own[:3])}{more}"
        raise ConfigError(f"{given}: contains {len(own)} settings ({names}); name one file, or one run as LOG#NAME")


def _arms(given: Sequence[list[Diagnosis]]) -> list[Arm]:
    """Return the arms of NEW. Runs that declare settings are grouped by their settings; other runs are grouped by
    input."""
    from ..compare import arms_of

    declaring = [d for diagnoses in given for d in diagnoses if d.settings]
    silent = [[d for d in diagnoses if not d.settings] for diagnoses in given]
    return [*arms_of(declaring), *(arm for diagnoses in silent for arm in arms_of(diagnoses))]


def _diagnoses(word: str, config: Config) -> tuple[list[Diagnosis], int]:
    """Return the runs of ``PATH``, or the run ``PATH#NAME`` (or ``#NUMBER``), and the exit code of read errors."""
    path, name = Path(word), ""
    if "#" in word and not path.exists():
        before, _, name = word.rpartition("#")
        path = Path(before)
    outcome = diagnose_paths([path], config)
    diagnoses = outcome.diagnoses
    code = common.exit_code(
        findings=False, broken=outcome.broken, unreadable=outcome.unreadable, unjudged=outcome.without_run
    )
    if not name:
        return diagnoses, code
    named = [d for d in diagnoses if d.source.endswith(f"({name})")]
    if not named and name.isdigit() and 1 <= int(name) <= len(diagnoses):
        named = [diagnoses[int(name) - 1]]
    if not named and diagnoses:
        have = ", ".join(re.sub(r".*\(", "", d.source).removesuffix(")") for d in diagnoses[:12])
        raise ConfigError(f"{path}: contains no run {name!r}; its runs: {have}")
    return named, code


def exit_code(found: Sequence[Comparison], fail_on: Severity) -> int:
    """Return 1 if any NEW is worse or has new findings. Otherwise, return 3 if any NEW could not be compared, or 0."""
    return common.exit_code(
        findings=any(c.verdict == "worse" or (c.worst is not None and c.worst >= fail_on) for c in found),
        unjudged=any(c.verdict == "cannot tell" for c in found),
    )
