"""Constructed arms for the tests of comparisons."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from grpo_doctor import diagnose
from grpo_doctor.compare import Arm, Comparison, arms_of, compare
from grpo_doctor.readers import read
from grpo_doctor.record import StepRecord
from grpo_doctor.run import Run, Sample, run_of
from tests.corpus_path import CORPUS


def run(
    settings: Mapping[str, Any] | None = None, first: int = 1, source: str = "run", **columns: Iterable[Any]
) -> Run:
    """A run with these columns, counted from ``first``."""
    rows = zip(*columns.values(), strict=True)
    records = [StepRecord(step=first + i, **dict(zip(columns, row, strict=True))) for i, row in enumerate(rows)]
    return run_of(records, source, settings)


def arm(*runs: Run) -> Arm:
    """These runs as one arm."""
    (made,) = arms_of([diagnose(run) for run in runs])
    return made


def compared(base: Run, new: Run, **options: Any) -> Comparison:
    """Two runs side by side."""
    return compare(arm(base), arm(new), **options)


def reward(seed: int, steps: int = 60, gain: float = 0.5, noise: float = 0.03) -> list[float]:
    """Return a reward that rises by ``gain``, with its own noise."""
    rng = np.random.default_rng(seed)
    rise = gain / (1 + np.exp(-(np.arange(steps) / steps - 0.3) * 12))
    return [float(x) for x in 0.2 + rise + noise * rng.standard_normal(steps)]


def answers(step: int, *texts: str) -> list[Sample]:
    """Responses to one prompt."""
    return [Sample(step=step, response=text, prompt="1 + 1?") for text in texts]


ACROSS = {
    "CMP001": ("R028-assignment5-alignment/metrics.jsonl", "R029-assignment5-alignment/metrics.jsonl"),
    "REC003": ("seed-lever/epochs.csv#kl012_frozen", "seed-lever/epochs.csv#plan5"),
    "UPD005": ("R135-colab-grpo/training_p29.log", "R133-colab-grpo/training_p30.log"),
}
"""Checks across runs, and pairs of public logs on which they spoke rightly."""


def side(source: str) -> Arm:
    """The run of a public log, or one by its name, as a side of a comparison."""
    path, _, name = source.partition("#")
    return arm(*(run for run in read(CORPUS / path) if f"({name})" in run.source or not name))


def said_of(pair: tuple[str, str]) -> set[str]:
    """Return the codes of the comparison checks that fire on a pair of public logs."""
    return {finding.code for finding in compare(*map(side, pair)).findings}
