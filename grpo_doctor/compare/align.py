"""Aligns two arms on one axis, at the steps or token counts ("places") that all their runs share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from ..run import Run

By = Literal["step", "tokens"]
LARGEST = 1e100
"""Minimum absolute value of a number that counts as infinite, because its square would overflow."""


class Aligned(NamedTuple):
    """A metric of two arms at shared places. ``base`` and ``new`` have one row per run, [runs, places]."""

    x: np.ndarray
    base: np.ndarray
    new: np.ndarray

    def difference(self) -> np.ndarray:
        """Return the mean of ``new`` over its seeds minus the mean of ``base``, at each place."""
        return np.asarray(self.new.mean(axis=0) - self.base.mean(axis=0))

    def equal(self) -> np.ndarray:
        """Return a mask of the places at which every run of both arms has the same value."""
        first = self.base[0]
        return np.asarray((self.base == first).all(axis=0) & (self.new == first).all(axis=0))


def timeline(run: Run) -> np.ndarray:
    """Return the valid rows. If a resumed run repeats steps, the later rows replace the earlier rows."""
    if not len(run):
        return np.empty(0, int)
    least_after = np.minimum.accumulate(run.steps[::-1])[::-1]
    return np.flatnonzero(np.append(run.steps[:-1] < least_after[1:], True))


def places(run: Run, by: By) -> np.ndarray | None:
    """Return the place of each row: its step, or the number of tokens processed so far; None if unknown."""
    if by == "step":
        return run.steps.astype(float)
    tokens = run.columns.get("tokens_seen")
    return tokens if tokens is not None and np.isfinite(tokens).any() else None


def align(base: Sequence[Run], new: Sequence[Run], metric: str, by: By = "step") -> Aligned | None:
    """Return the metric at the places of the run with the fewest places. Return None if a run lacks the metric, or the
    runs share no place.

    For a run with more places, each value is the mean since the previous place, as if its trainer logged means over
    several steps.
    """
    series = [_series(run, metric, by) for run in (*base, *new)]
    known = [s for s in series if s is not None]
    if len(known) < len(series):
        return None
    low, high = max(float(x[0]) for x, _ in known), min(float(x[-1]) for x, _ in known)
    inside = [x[(x >= low) & (x <= high)] for x, _ in known]
    grid = min(inside, key=len)
    if not len(grid):
        return None
    rows = np.array([_on(grid, x, y) for x, y in known])
    shared = np.isfinite(rows).all(axis=0)
    rows = rows[:, shared]
    return Aligned(grid[shared], rows[: len(base)], rows[len(base) :]) if shared.any() else None


def _series(run: Run, metric: str, by: By) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the places at which a metric is a number, in ascending order, and its values."""
    column, place = run.column(metric), places(run, by)
    if column is None or place is None or column.dtype == object:
        return None
    rows = timeline(run)
    rows = rows[(np.abs(column[rows]) < LARGEST) & np.isfinite(place[rows])]
    rows = rows[np.argsort(place[rows], kind="stable")]
    return (place[rows], column[rows].astype(float)) if len(rows) else None


def _on(grid: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return, for each place of ``grid``, the mean of ``y`` since the previous place; NaN if there is no value."""
    before = grid[0] - (float(np.median(np.diff(grid))) if len(grid) > 1 else 1.0)
    begin = np.searchsorted(x, np.concatenate(([before], grid[:-1])), side="right")
    end = np.searchsorted(x, grid, side="right")
    alone = end - begin == 1
    total = np.concatenate(([0.0], np.cumsum(y)))
    with np.errstate(invalid="ignore"):
        mean = (total[end] - total[begin]) / (end - begin)
    return np.where(alone, y[np.maximum(end - 1, 0)], np.where(end > begin, mean, np.nan))
