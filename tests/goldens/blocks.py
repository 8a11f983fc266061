"""Describes one input as a block of text: what was read from it, the verdict and every finding.

A block contains only numbers and the product's own sentences. Nothing of a third-party log or configuration is copied
except names of columns and settings and their values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from pathlib import Path

import numpy as np

from grpo_doctor.diagnosis.catalogue import load
from grpo_doctor.diagnosis.examine import diagnose
from grpo_doctor.diagnosis.verdict import Diagnosis
from grpo_doctor.preflight.judgement import judge
from grpo_doctor.preflight.reading import read as read_configurations
from grpo_doctor.readers import ReadError, read
from grpo_doctor.run import Run

from ..corpus_path import CORPUS, SHARED

DATA = Path(__file__).parents[1] / "data"
KEPT_SETTINGS = 12
"""Settings in a block of a log; the count of all follows."""
LONGEST = 160
"""Characters of one value in a block."""


def figure(value: float) -> str:
    """Return a number with five significant digits, so that rounding on another machine changes no block."""
    return f"{value:.5g}"


def finding_lines(diagnosis: Diagnosis) -> Iterator[str]:
    """One line for each finding."""
    for found in diagnosis.findings:
        state = "cleared" if found.cleared else found.role
        yield f"  {found.code} {found.severity} {found.confidence} {state} {found.onset_step}: {found.message}"


def run_lines(run: Run) -> Iterator[str]:
    """Return a description of the run: rows, steps, columns with count and median, settings."""
    bounds = f"{run.steps[0]}..{run.steps[-1]}" if len(run) else "none"
    yield f" run {run.format} {run.run_type} rows {len(run)} steps {bounds}"
    for name in sorted(run.columns):
        column = run.columns[name]
        if column.dtype == object:
            yield f"  = {name} {sum(value is not None for value in column)}"
            continue
        known = column[~np.isnan(column.astype(float))]
        yield f"  = {name} {len(known)} {figure(float(np.median(known))) if len(known) else 'nan'}"
    settings = [f"{name}={value!s:.40}" for name, value in sorted(run.settings.items())]
    yield f"  settings {len(settings)}: {' '.join(settings[:KEPT_SETTINGS])}"
    yield f"  unused {len(run.unread)}"


def diagnosis_lines(diagnosis: Diagnosis) -> Iterator[str]:
    """Verdict, first sentence, cause and findings."""
    cause = f"{diagnosis.outcome or '-'} {diagnosis.cause or '-'} {diagnosis.onset_step}"
    yield f" {diagnosis.verdict} {cause}: {diagnosis.headline}"
    yield from finding_lines(diagnosis)


@lru_cache(maxsize=1)
def judged(path: Path) -> tuple[Diagnosis, ...]:
    """The diagnosis of each run of a log; the last log is cached, because several tests use it in turn."""
    return tuple(diagnose(run, catalogue=load()) for run in read(path))


def of_log(path: Path) -> Iterator[str]:
    """The block of a log."""
    try:
        found = judged(path)
    except ReadError as error:
        yield f" unreadable: {str(error).replace(str(path), path.name)[:LONGEST]}"
        return
    for diagnosis in found:
        yield from run_lines(diagnosis.run)
        yield from diagnosis_lines(diagnosis)


def of_configuration(path: Path) -> Iterator[str]:
    """The block of a configuration: each training in it, its settings with where they come from, its findings."""
    try:
        trainings = read_configurations(path)
    except ReadError as error:
        yield f" unreadable: {str(error).replace(str(path), path.name)[:LONGEST]}"
        return
    for training in trainings:
        diagnosis = judge(training, path.name)
        yield f" training {training.framework.name} {training.run_type}"
        for name in sorted(training.settings):
            source = "default" if name in training.assumed else f"line {training.lines.get(name, 0)}"
            yield f"  = {name} {training.settings[name]!s:.80} ({source})"
        yield from diagnosis_lines(diagnosis)


@cache
def _logs() -> dict[str, Path]:
    known = {
        path.relative_to(SHARED).as_posix(): path for path in sorted(CORPUS.glob("*/*")) if path.name != "README.md"
    }
    cases = {path.relative_to(SHARED).as_posix(): path for path in sorted((SHARED / "cases/formats").glob("*"))}
    return known | cases


@cache
def _configurations() -> dict[str, Path]:
    found = [*(SHARED / "configs").glob("*/*"), *(SHARED / "cases/settings").glob("*")]
    return {path.relative_to(SHARED).as_posix(): path for path in sorted(found) if path.is_file()}


@cache
def _data() -> dict[str, Path]:
    found = [*(DATA / "engine").glob("*.gz"), *(DATA / "trl").glob("*")]
    return {path.relative_to(DATA).as_posix(): path for path in sorted(found)}


Describe = Callable[[Path], Iterator[str]]
PARTS: dict[str, tuple[Callable[[], dict[str, Path]], Describe]] = {
    "data": (_data, of_log),
    "configurations": (_configurations, of_configuration),
    "logs": (_logs, of_log),
}
"""Name of a snapshot to its inputs by name, and what describes one of them."""


def block(part: str, name: str) -> str:
    """The block of one input, under its name."""
    inputs, describe = PARTS[part]
    return "\n".join([f"## {name}", *(_one_line(line) for line in describe(inputs()[name]))])


def _one_line(text: str) -> str:
    return text.replace("\r", "\\r").replace("\n", "\\n")


def blocks_of(text: str) -> dict[str, str]:
    """The blocks of a snapshot by the name of their input."""
    parts = ("\n" + text.rstrip("\n")).split("\n## ")[1:]
    return {part.partition("\n")[0]: f"## {part}" for part in parts}
