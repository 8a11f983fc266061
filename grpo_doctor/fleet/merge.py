"""Merges worker results: removes duplicates and runs that are not training runs, and groups runs by their settings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from ..compare.arms import SEEDS
from ..readers.folder import is_training
from ..readers.views import Views
from ..readers.walk import Answer
from ..run import Run, non_finite
from .unit import Judged, Line


class MergedFleet(NamedTuple):
    """The rows of a fleet, and the result for every file."""

    lines: list[Line]
    answers: list[Answer]


def merge_units(units: Iterable[Judged]) -> MergedFleet:
    """Return the distinct runs of all units. Evaluations and summaries next to training logs are excluded."""
    judged = list(units)
    answers = [answer for unit in judged for answer in unit.answers]
    lines = [line for unit in judged for line in unit.lines]
    runs = [line for line in lines if line.verdict not in UNTOLD]
    kept = [line for line in runs if is_training(line.run_type, line.format, line.steps)] or runs
    told, second = _distinct(kept)
    beside = {line.source for line in runs} - {line.source for line in kept}
    sources = {line.source for line in told}
    answers = [_answer(answer, second, beside, sources) for answer in answers]
    return MergedFleet(told + [line for line in lines if line.verdict in UNTOLD], answers)


UNTOLD = ("unreadable", "broken")
"""Verdicts of rows without a run."""


def _answer(answer: Answer, second: dict[str, str], beside: set[str], told: set[str]) -> Answer:
    """Return the result for a file. The result changes if the run is also in another unit, or if the file is an
    evaluation next to training logs."""
    if answer.fate != "read" or answer.source in told:
        return answer
    if answer.source in second:
        return Answer(answer.source, "second view", f"of {second[answer.source]}")
    if answer.source in beside:
        return Answer(answer.source, "no log", "an evaluation or a summary, not a training log")
    return answer


def _distinct(lines: list[Line]) -> tuple[list[Line], dict[str, str]]:
    """Return the rows without duplicate logs of a run, and a map from each duplicate to its run.

    Runs with equal metrics but different settings stay separate, because the report states that the changed setting has
    no effect. A failing duplicate is kept if the other log is not failing, because the failing log contains metrics
    that the other log lacks.
    """
    kept: dict[int, Line] = {}
    second: dict[str, str] = {}
    views = Views()
    for line in sorted(lines, key=lambda line: (line.steps, len(line.levels), len(line.view)), reverse=True):
        run = _as_run(line)
        found = views.of(run)
        same = None if found is None else kept[id(found)]
        differing = [] if same is None else _differing(same, line)
        if same is not None and not differing and (line.verdict != "failing" or same.verdict == "failing"):
            second[line.source] = same.source
            same.settings = {**line.settings, **same.settings}
            continue
        if same is not None and differing:
            line.twin = f"identical to {same.source} in every metric although {', '.join(differing[:3])} differs"
        views.keep(run)
        kept[id(run)] = line
    return list(kept.values()), second


def _differing(one: Line, other: Line) -> list[str]:
    """Return the settings that both runs declare with different values."""
    return [name for name in one.settings.keys() & other.settings.keys() if one.settings[name] != other.settings[name]]


def _as_run(line: Line) -> Run:
    """Return a run with only the values that identify duplicates."""
    run = Run(line.source)
    run.steps = np.array(line.view_steps, np.int64)
    run.columns = {name: np.array(values, float) for name, values in line.view.items()}
    for row, name in line.broken:
        run.events.setdefault(row, []).append(non_finite(name, run.columns[name][row]))
    return run


def by_setting(lines: list[Line]) -> list[list[Line]]:
    """Group the runs whose settings differ only in the seed. Skip runs that declare no settings."""
    groups: dict[str, list[Line]] = {}
    for line in lines:
        told = {name: value for name, value in line.settings.items() if name.rsplit(".", 1)[-1] not in SEEDS}
        if told:
            groups.setdefault(repr(sorted(told.items())), []).append(line)
    return list(groups.values())
