"""Transforms with memory: columns whose value on a row depends on the rows before it.

Each transform creates a node of the expression and has no state; its memory is a state of `series.cells`, which the
plan keeps. They give the same values row by row, block by block and as a whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from . import cells, gains, windows
from .expression import Column, ColumnError, apply, isnan, maximum, sqrt, where

_VALUES = (int, float, str, tuple, frozenset, type(None))
"""Kinds of state that cannot be changed in place."""


def _remembered(cell: cells.Cell, *inputs: Any) -> Column:
    return apply(cell, *inputs)


NEAR_START = 3
"""Rows after step 0 within which a log must begin to count as containing the start of its run, because the first rows
may be missing."""
MISSED = 0.05
"""Share of its length that a log may miss at the start and still count as the whole run."""


def from_start(step: Column) -> Column:
    """Whether the log contains the start of its run. Otherwise its first row is not a baseline."""
    first = baseline(step, 1)
    return (first <= maximum(1, NEAR_START * baseline(step - previous(step), 1))) | (first <= MISSED * (step - first))


def best(x: Column) -> Column:
    """Largest value so far."""
    return _remembered(cells.Best(), x)


def lowest(x: Column) -> Column:
    """Smallest value so far."""
    return -best(-x)


def total(x: Column) -> Column:
    """Sum so far; for a condition, the number of rows on which it held."""
    return _remembered(cells.Total(), x)


def latest(x: Column) -> Column:
    """The last known value, for a field that is recorded only on some rows."""
    return _remembered(cells.Latest(), x)


def baseline(x: Column, rows: int = 5) -> Column:
    """Median of the first ``rows`` known values; NaN until there are that many."""
    return _remembered(cells.First() if rows == 1 else cells.Baseline(rows), x)


def previous(x: Column, rows: int = 1) -> Column:
    """The value ``rows`` rows ago; NaN on the first ``rows`` rows."""
    return _remembered(cells.Last() if rows == 1 else cells.Previous(rows), x)


def moving_sum(x: Column, rows: int) -> Column:
    """Sum of the last ``rows`` rows; for a condition, the number of those rows on which it held."""
    return _remembered(windows.Window(rows, windows.added), x)


def moving_mean(x: Column, rows: int) -> Column:
    """Mean of the last ``rows`` rows."""
    return _remembered(windows.Window(rows, windows.mean), x)


def moving_max(x: Column, rows: int) -> Column:
    """Largest of the last ``rows`` rows."""
    return _remembered(windows.Window(rows, windows.largest), x)


def moving_min(x: Column, rows: int) -> Column:
    """Smallest of the last ``rows`` rows."""
    return _remembered(windows.Window(rows, windows.smallest), x)


def moving_median(x: Column, rows: int) -> Column:
    """Median of the last ``rows`` rows."""
    return _remembered(windows.Window(rows, windows.median), x)


def leaps(x: Column, rows: int, times: float, above: float) -> Column:
    """Whether a value is above a size and above a multiple of the median of the ``rows`` rows before it."""
    return (x > times * abs(moving_median(previous(x), rows))) & (x > above)


def moving_mad(x: Column, rows: int) -> Column:
    """Median absolute deviation from the median of the last ``rows`` rows."""
    return _remembered(windows.Window(rows, windows.deviation), x)


def kendall_tau(x: Column, rows: int) -> Column:
    """Kendall's tau-a of the last ``rows`` rows against time: -1 means a fall throughout, 1 a rise throughout."""
    return _remembered(windows.Window(rows, windows.tau), x)


def slope(x: Column, rows: int) -> Column:
    """Least-squares change per row over the last ``rows`` rows."""
    return _remembered(windows.Window(rows, windows.Slope(rows)), x)


def recent_mean(x: Column, rows: int = 5) -> Column:
    """Mean of the last ``rows`` known values, kept on rows on which the field is not recorded."""
    return _remembered(windows.OnKnown(windows.Window(rows, windows.mean)), x)


def lately(x: Column, responses: Column) -> Column:
    """`recent_mean`, or the value itself in a run of one row of many ``responses``."""
    return where(isnan(responses), recent_mean(x), x)


def known_median(x: Column, rows: int) -> Column:
    """Median of the last ``rows`` known values, kept on rows on which the field is not recorded."""
    return _remembered(windows.OnKnown(windows.Window(rows, windows.median)), x)


def noise(x: Column) -> Column:
    """Standard deviation of one known value about its trend, from the differences of neighbours so far."""
    return gains.SPREAD * _remembered(gains.Noise(), x)


def began(when: Column, off: Column, step: Column) -> Column:
    """Step since which a quantity has been off its first level at the time when ``when`` begins to hold; otherwise NaN.

    For example, a length that fell below a quarter (``when``) began to fall when it left its first level (``off``).
    """
    return _remembered(cells.Began(), when, off, step)


def fold(function: Callable[..., tuple[Any, float]], start: Callable[[], Any], *columns: Column) -> Column:
    """``function(state, *row) -> (state, value)`` over the rows: for rules that no other transform fits.

    If the function changes its state in place, the state must have a ``copy`` method that shares no mutable parts; the
    function receives such a copy.
    """
    if not isinstance(start(), _VALUES) and not hasattr(start(), "copy"):
        raise ColumnError(f"fold: the state {start()!r} needs a copy(), because checks look ahead on a copy")
    return _remembered(cells.Fold(function, start), *columns)


# -- state of the reward, derived only here -------------------------------------------------------------------------


def gained(x: Column, rows: int = 5) -> Column:
    """Whether the recent mean is 2.5 standard errors above the first value, or above the first such mean.

    The first row precedes any update, but may be an outlier of a small batch; the first mean is stable, but hides the
    effect of the first updates. Either is sufficient, over ``rows`` rows or, for a slow gain, four times as many.
    """
    return _remembered(gains.Gained(rows), x)


def solved(reward: Column, reward_max: Column, unit: Column, rows: int = 5, share: float = 0.9) -> Column:
    """Whether the reward has reached ``share`` of the best single reward, or of 1 for rewards on a scale of 0 to 1.

    The recent mean decides, or the last value until there is one. Rewards that are all 0 do not count as solved.
    """
    now, most, least = recent_mean(reward, rows), best(reward_max), lowest(reward)
    now = where(isnan(now), latest(reward), now)
    most = where(isnan(most), where(unit, 1.0, math.nan), most)
    return (now >= share * most) & ((most != 0) | (least < 0))


COLLAPSED = 0.9
"""Share of invalid responses at or above which a rollout counts as collapsed."""
HEALTHY = 0.5
"""Share of invalid responses up to which a rollout counts as healthy."""
NEAR_FLOOR = 0.1
"""Share of the run's own reward range, above its minimum, that counts as collapsed if validity is unknown."""


def collapse(invalid: Column, reward: Column) -> tuple[Column, Column]:
    """``(healthy, collapsed)`` by the share of invalid responses, or by the run's own reward range if that is
    unknown."""
    known = invalid == invalid
    top, floor = best(reward), lowest(reward)
    span = top - floor
    ranged = span > 0.05 * maximum(abs(top), abs(floor))
    collapsed = where(known, invalid >= COLLAPSED, ranged & (reward <= floor + NEAR_FLOOR * span))
    healthy = where(known, invalid <= HEALTHY, ranged & (reward >= floor + HEALTHY * span))
    return healthy, collapsed


# -- identities of group-relative advantages ---------------------------------------------------------------------


def rms_on_ties(std: Column, mean: Column, rms_live: Column, dead: Column, n: Column) -> Column:
    """Root mean square advantage over the groups with equal rewards, which should be 0; NaN if there are none.

    From the identity mean(A^2) = (1 - dead) rms_live^2 + dead rms_tied^2. ``std`` may have ddof 1. With ``n``
    advantages, it is treated as the smaller value, so the result is a lower bound.
    """
    square = std**2 * (n - 1) / n + mean**2
    excess = maximum(square - (1 - dead) * where(dead >= 1, 0.0, rms_live) ** 2, 0.0)
    return sqrt(where(dead > 0, excess / maximum(dead, 1e-12), math.nan))


def homogeneous(p: Column, k: Column) -> Column:
    """Expected share of groups whose ``k`` binary rewards are all equal if each response is correct with probability
    ``p``."""
    return p**k + (1 - p) ** k
