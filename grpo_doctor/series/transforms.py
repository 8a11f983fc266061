"""Transforms with memory, which create columns whose value on a row depends on earlier rows.

Each transform creates a node of the expression and has no state. The plan keeps the memory of a transform as a state of
its cell (`series.cells`). A transform gives the same values row by row, block by block and over the whole run.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from . import cells, gains, windows
from .expression import Column, ColumnError, apply, isnan, maximum, row, sqrt, where

_VALUES = (int, float, str, tuple, frozenset, type(None))
"""Types of state that cannot be changed in place."""


def _remembered(cell: cells.Cell, *inputs: Any) -> Column:
    return apply(cell, *inputs)


NEAR_START = 3
"""Maximum number of row intervals between step 0 and the first row for which a log counts as containing the start of
its run."""
MISSED = 0.05
"""Maximum share of a log's length that may be missing at its start for the log to count as containing the start of its
run."""


def from_start(step: Column) -> Column:
    """Whether the log contains the start of its run. Without the start of the run, the first row is not a baseline."""
    first = baseline(step, 1)
    return (first <= maximum(1, NEAR_START * baseline(step - previous(step), 1))) | (first <= MISSED * (step - first))


def best(x: Column) -> Column:
    """Largest value so far."""
    return _remembered(cells.Best(), x)


def lowest(x: Column) -> Column:
    """Smallest value so far."""
    return -best(-x)


def total(x: Column) -> Column:
    """Sum so far; for a condition, the number of rows on which the condition was true."""
    return _remembered(cells.Total(), x)


def latest(x: Column) -> Column:
    """The last known value, for a field that is recorded only on some rows."""
    return _remembered(cells.Latest(), x)


def baseline(x: Column, rows: int = 5) -> Column:
    """Median of the first ``rows`` known values; NaN until there are ``rows`` known values."""
    return _remembered(cells.First() if rows == 1 else cells.Baseline(rows), x)


def previous(x: Column, rows: int = 1) -> Column:
    """The value ``rows`` rows ago; NaN on the first ``rows`` rows."""
    return _remembered(cells.Last() if rows == 1 else cells.Previous(rows), x)


def moving_sum(x: Column, rows: int) -> Column:
    """Sum over the last ``rows`` rows; for a condition, the number of rows on which the condition was true."""
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
    """Whether a value is larger than ``above`` and larger than ``times`` the median of the ``rows`` previous rows."""
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
    """Mean of the last ``rows`` known values. Rows without a value repeat the mean."""
    return _remembered(windows.OnKnown(windows.Window(rows, windows.mean)), x)


def lately(x: Column, responses: Column) -> Column:
    """`recent_mean`, or the value itself on rows with a known number of ``responses``, because one row with many
    responses may be the whole run."""
    return where(isnan(responses), recent_mean(x), x)


def recent_min(x: Column, rows: int) -> Column:
    """Smallest of the last ``rows`` known values. Rows without a value repeat it."""
    return _remembered(windows.OnKnown(windows.Window(rows, windows.smallest)), x)


def known_median(x: Column, rows: int) -> Column:
    """Median of the last ``rows`` known values. Rows without a value repeat the median."""
    return _remembered(windows.OnKnown(windows.Window(rows, windows.median)), x)


def noise(x: Column) -> Column:
    """Standard deviation of a known value about its trend, estimated from the differences between neighbouring values
    so far."""
    return gains.SPREAD * _remembered(gains.Noise(), x)


def began(when: Column, off: Column, step: Column) -> Column:
    """Step at which a quantity left its first level, on rows on which ``when`` is true; NaN on other rows.

    For example, if a length fell below a quarter of its first level (``when``), the fall began when the length left
    that level (``off``).
    """
    return _remembered(cells.Began(), when, off, step, row(step))


MOVED = 0.005
"""KL to the reference, in nats per token, above which the policy has moved, if it began near 0."""


def departed(kl: Column) -> Column:
    """Whether the KL has risen from its start, so that updates have moved the policy away from its reference."""
    level = recent_mean(kl)
    return (level > MOVED) & (level > 3 * abs(baseline(kl)))


def fold(function: Callable[..., tuple[Any, float]], start: Callable[[], Any], *columns: Column) -> Column:
    """Values of ``function(state, *row) -> (state, value)`` over the rows, for rules that no other transform can
    express.

    If the function changes its state in place, the state must have a ``copy`` method that returns a copy without shared
    mutable parts. The function receives the copy.
    """
    if not isinstance(start(), _VALUES) and not hasattr(start(), "copy"):
        raise ColumnError(f"fold: the state {start()!r} needs a copy(), because checks look ahead on a copy")
    return _remembered(cells.Fold(function, start), *columns)


# -- state of the reward -------------------------------------------------------------------------


def gained(x: Column, rows: int = 5) -> Column:
    """Whether the recent mean is 2.5 standard errors above the first value, or above the mean of the first values over
    a window of the same length.

    The first row precedes any update, but may be an outlier of a small batch. The first mean is stable, but hides the
    effect of the first updates. A gain over the first value or over the first mean is sufficient. Means are over
    ``rows`` rows or, to detect a slow gain, over four times as many rows.
    """
    return _remembered(gains.Gained(rows), x)


def solved(reward: Column, reward_max: Column, unit: Column, rows: int = 5, share: float = 0.9) -> Column:
    """Whether the reward has reached ``share`` of the best single reward, or of 1 for rewards on a scale of 0 to 1.

    The recent mean of the reward is used. If there is no recent mean yet, the last value is used. Rewards that are all
    0 do not count as solved.
    """
    now, most, least = recent_mean(reward, rows), best(reward_max), lowest(reward)
    now = where(isnan(now), latest(reward), now)
    most = where(isnan(most), where(unit, 1.0, math.nan), most)
    return (now >= share * most) & ((most != 0) | (least < 0))


COLLAPSED = 0.9
"""Minimum share of invalid responses for a rollout to count as collapsed."""
HEALTHY = 0.5
"""Maximum share of invalid responses for a rollout to count as healthy."""
NEAR_FLOOR = 0.1
"""Share of the run's reward range above the minimum reward, up to which a rollout of unknown validity counts as
collapsed."""


def collapse(invalid: Column, reward: Column) -> tuple[Column, Column]:
    """Return ``(healthy, collapsed)``, judged by the share of invalid responses, or by the run's reward range if the
    share of invalid responses is unknown."""
    known = invalid == invalid
    top, floor = best(reward), lowest(reward)
    span = top - floor
    ranged = span > 0.05 * maximum(abs(top), abs(floor))
    collapsed = where(known, invalid >= COLLAPSED, ranged & (reward <= floor + NEAR_FLOOR * span))
    healthy = where(known, invalid <= HEALTHY, ranged & (reward >= floor + HEALTHY * span))
    return healthy, collapsed


# -- identities of group-relative advantages ---------------------------------------------------------------------


def rms_on_ties(std: Column, mean: Column, rms_live: Column, dead: Column, n: Column) -> Column:
    """Root-mean-square advantage over the groups with equal rewards, which should be 0; NaN if there are no such
    groups.

    The result follows from the identity mean(A^2) = (1 - dead) rms_live^2 + dead rms_tied^2. ``std`` may be computed
    with ddof 1 for ``n`` advantages. The computation converts ``std`` to ddof 0, which makes it smaller, so the result
    is a lower bound.
    """
    square = std**2 * (n - 1) / n + mean**2
    excess = maximum(square - (1 - dead) * where(dead >= 1, 0.0, rms_live) ** 2, 0.0)
    return sqrt(where(dead > 0, excess / maximum(dead, 1e-12), math.nan))


def homogeneous(p: Column, k: Column) -> Column:
    """Expected share of groups whose ``k`` binary rewards are all equal if each response is correct with probability
    ``p``."""
    return p**k + (1 - p) ** k
