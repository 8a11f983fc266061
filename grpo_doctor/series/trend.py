"""Classifies a success series as risen, fallen, solved or always at its minimum, and finds the step at which it
changed.

**Tests.** The tests use means of windows that span a quarter, an eighth and a sixteenth of the run, and at least three
bins. The test for a gain compares the last quarter with the first window. The test for a fall compares the last window,
or the last third of the run, with the best window. The critical values are quantiles of Student's t, because few bins
give an uncertain estimate of the noise. The critical value for a fall also accounts for a test after every row.
`benchmarks/trajectory.md` has the error rates. A gain and a fall must also appear as a slope or as levels that
autocorrelated noise does not explain (`series.changepoint`).

With few held-out scores, an exact rank test (`series.rank_test`) is also used. Six successive increases count as a
gain. A series has fallen if the scores after the highest score decrease. Held-out scores are measured far apart, so
their noise is independent.

**Onset.** A change begins where a split of the bins into two constant levels has the smallest squared error.
"""

from __future__ import annotations

import math
from functools import cache, cached_property, lru_cache
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from .changepoint import ONCE, climbed, rise, sunk
from .noise_model import Noise, critical, median, noise_of, split, squares
from .rank_test import climb, sinks

if TYPE_CHECKING:
    from .trajectory import Trajectory

LEAST = 8
"""Minimum number of rows at which a gain can be distinguished from noise. The fit then leaves two degrees of
freedom."""
RISE, FALL = 2.9, 4.6
"""`RISE`: critical value of a gain. `FALL`: critical value of a fall. The values are in standard errors and apply if
the standard error is known exactly; see `critical`."""
MATTERS, LOST = 0.15, 0.3
"""`MATTERS`: share of the best level that a series must lose for a fall to be reported. `LOST`: share of the best level
that a series must lose for the fall to be a failure."""
PART, HALF = 0.25, 0.5
"""The same limits as `MATTERS` and `LOST`, but as shares of the run's own range. A drop within the usual variation is
not a fall."""
LEAST_FALL = 0.05
"""Share of its absolute value that a reward must lose to count as fallen, because rounding changes a reward that is
fixed at -0.1."""
LEAST_GAIN = 0.01
"""Share of its absolute value that a series must gain to count as learning. Of the public rewards that rise beyond
their noise, only one gains less."""
WINDOW = 3
"""Number of bins of the smallest window, because a single value is not a level."""
PARTS, WIDEST = (16, 8, 4), 3
"""`PARTS`: divisors of the run length that give the window lengths. `WIDEST`: divisor for the widest window. The widest
window is used only for a fall, because a fall may be slow."""
SINGLES, APART = 24, 0.87
"""`SINGLES`: number of values below which the noise of held-out scores counts as independent, and below which the last
two values can show a collapse. `APART`: factor that reduces the critical drop for few held-out scores, for which no
change in level needs to be detected."""
SURE = 2.0
"""Multiple of the noise range above which a drop counts even if no change in level is detected, because almost no flat
run drops that far."""
OWN, HINT = 5, 0.5
"""`OWN`: minimum number of bins for a separate estimate of a window's noise. `HINT`: share of the critical drop above
which the noise of the windows is estimated separately. Most drops are smaller, so the separate estimate is skipped."""
SOLVED = 0.9
"""Minimum share of the maximum reward for a task to count as solved."""
SETTLED = 2.0
"""Critical value of a gain within a plateau. The value is lower than `RISE`, so that a series that may still be rising
is not a plateau."""
UNIT = 0.1
"""Mean reward above which rewards between 0 and 1 are assumed to have a maximum of 1. Lower rewards may have another,
unknown scale."""
FEW, SHORT = 12, 16
"""Maximum number of held-out scores whose ranks are also tested for a gain (`FEW`) and for a fall (`SHORT`). The noise
of so few scores is poorly known. Of 6,000 flat runs with an autocorrelation of 0.3, 0.97% show a gain with 12 scores,
and 1.6% show a gain with 16 scores."""
ITEMS, WHOLE = 500, 1e-4
"""`ITEMS`: largest number of held-out items that is recognised. `WHOLE`: difference from a whole number that is
rounding."""
UNPAID = 0.85
"""Minimum share of rows at the smallest value for a series to count as always at its minimum. A series with seven of
eight rows at the minimum has no signal."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a series after some rows. Levels are means of windows.

    Attributes:
        rows: number of rows with a value.
        first, now, best: level of the first window, level of the last window, and highest level. If the series rose or
            fell, the first window ends where the rise begins.
        first_value, last_value: the first and the last value; with many values, the mean of the first and the last bin.
        shown: the smallest detectable gain; NaN while unknown.
        lean: the rise of the series as a share of the smallest detectable gain. The share is above 1 only if a rise
            explains the series better than autocorrelated noise does.
        gained: whether the last level is above the first level by more than noise.
        risen: whether the series gained, or was not solved at first and now is. For a newly solved series, the evidence
            from levels or ranks must be half of what a gain needs. A series that is always at its maximum shows no
            learning.
        fallen: 0 (no fall), 1 (a reported fall) or 2 (a failure, because most of the gain is lost).
        unit: whether the scale is assumed to be from 0 to 1, because all values are in this range.
        solved: whether the last level is near the maximum of a known scale.
        unpaid: whether almost every row is at the minimum.
        since: step at which the fall began, or the rise if there is no fall; NaN if there is neither.
    """

    rows: int = 0
    first: float = math.nan
    now: float = math.nan
    best: float = math.nan
    first_value: float = math.nan
    last_value: float = math.nan
    shown: float = math.nan
    lean: float = 0.0
    gained: bool = False
    risen: bool = False
    fallen: int = 0
    unit: bool = False
    solved: bool = False
    unpaid: bool = False
    since: float = math.nan

    @property
    def kind(self) -> str:
        """Return one or two words for the state."""
        if self.fallen:
            return "fell"
        if self.unpaid:
            return "never paid"
        if self.solved:
            return "solved"
        if self.gained:
            return "learnt"
        return "cannot tell" if math.isnan(self.shown) else "flat"


NOTHING = Outcome()


class Drop(NamedTuple):
    """A drop from the best window to the last window. The best window has ``wide`` bins and starts at ``peak``; the
    last window has ``rows`` bins."""

    best: float
    end: float
    peak: int
    wide: int
    rows: int


def common_denominator(shares: np.ndarray) -> int:
    """Return the smallest number of items of which all shares can be shares; 0 if there is no such number up to
    `ITEMS`, or if the shares are rounded to two decimals, which hides the number.

    >>> common_denominator(np.array([25 / 52, 51 / 104]))
    104
    """
    counts = np.arange(2, ITEMS + 1)
    products = np.outer(counts, np.unique(shares))
    whole = np.abs(products - products.round()).max(axis=1, initial=0.0) < WHOLE
    found = counts[whole]
    return 0 if len(found) == 0 or whole[100 - 2] else int(found[0])


class Standing:
    """An `Outcome` that computes each part on first use. A run is judged at many rows. The noise is the most expensive
    part, and is needed only if the series has risen or dropped."""

    def __init__(self, series: Trajectory) -> None:
        self.rows, low, high, lowest, top = series.full
        self.unit, self._positive = low >= 0 and UNIT < high <= 1, low >= 0
        self._top = 1.0 if math.isnan(top) and self.unit else top
        self._at_floor = at_floor(self.rows, low, lowest)
        self._sums, self._width, self._begins, self._apart = series.sums, series.width, series.begins, series.apart
        self._chance, self._bins = series.chance, len(series.sums) - 1
        self._lengths = _lengths(self._bins)

    @property
    def outcome(self) -> Outcome:
        """Compute all parts."""
        return Outcome(**{name: getattr(self, name) for name in Outcome.__struct_fields__})

    @cached_property
    def first(self) -> float:
        return self._start if self.risen or self.fallen else self._quarters[0]

    @cached_property
    def now(self) -> float:
        return self._drop.end if self.fallen else self._quarters[1]

    @cached_property
    def best(self) -> float:
        return self._drop.best if self._lengths else math.nan

    @property
    def first_value(self) -> float:
        return self._level(0, 1) if self._bins else math.nan

    @property
    def last_value(self) -> float:
        return self._level(self._bins - 1, 1) if self._bins else math.nan

    @cached_property
    def shown(self) -> float:
        return self._detectable(self._lengths[-1]) if self._lengths else math.nan

    @cached_property
    def gained(self) -> bool:
        begun, now = self._quarters
        if not now > begun:
            return False  # regardless of the noise
        return self.lean > 1 and now - self._start > LEAST_GAIN * max(abs(self._start), abs(now))

    @cached_property
    def lean(self) -> float:
        begun, now = self._quarters
        if not now > begun:
            return 0.0
        first, shown = self._start, self.shown
        if now - self._chance <= max(shown / 2, self._chance_error):
            return 0.0  # a rise to the level of random guessing is not a gain
        far = (now - first) / shown
        if self._apart:  # ``far`` may be NaN, and `max` then ignores it
            return max(climb(self._means) / RISE, far) if self._bins <= FEW else far
        return min(far, math.sqrt(_climbed(self._means.tobytes()))) if far > 1 else far

    @property
    def _chance_error(self) -> float:
        """Return two standard errors of the accuracy of random guessing on the held-out pairs; 0 if their number is
        unknown. Every evaluation uses the same pairs, so the noise between evaluations does not contain this error."""
        counted = self._apart and self._width == 1 and math.isfinite(self._chance)
        items = common_denominator(self._means) if counted else 0
        return math.sqrt(1 / items) if items else 0.0

    @cached_property
    def risen(self) -> bool:
        reached = self.solved and self._start < SOLVED * self._top <= self.now
        return self.gained or (reached and max(self.lean, climb(self._means) / RISE) > HALF)

    @cached_property
    def fallen(self) -> int:
        if not any(map(self._grade, self._drops)) and not self._last_drop:
            return 0  # regardless of the noise
        fell = bool(self._last_drop) or self._shows() or (self._apart and self._bins <= SHORT and sinks(self._means))
        return self._grade(self._drop) if fell else 0

    @property
    def fell(self) -> bool:
        """Return whether there is a reportable fall."""
        return self.fallen > 0

    @property
    def lost(self) -> bool:
        """Return whether most of the gain is lost."""
        return self.fallen > 1

    @cached_property
    def solved(self) -> bool:
        tail = min(max(self._bins // 8, WINDOW), self._bins)
        return self._top > 0 and self._level(self._bins - tail, tail) >= SOLVED * self._top

    @cached_property
    def unpaid(self) -> bool:
        return self._bins >= LEAST and self._at_floor and not self.solved

    @cached_property
    def since(self) -> float:
        if self.fallen:
            peak = self._drop.peak
            return self._begins[peak + split(self._means[peak:])]
        return self._begins[split(self._means)] if self.gained else math.nan

    @cached_property
    def settled(self) -> float:
        """Return the step at which the plateau of a series that gained begins; NaN if the series may still be rising.

        The plateau begins after the last window that is clearly below the last quarter. The second half of a plateau
        must not be above its first half by more than noise.
        """
        if not (self._lengths and self.gained) or self.solved:
            return math.nan
        means, noise, k = self._means, self._noise, max(self._bins // PARTS[1], WINDOW)
        reach = critical(RISE, noise.degrees) * math.hypot(noise.error(k), noise.error(self._lengths[-1]))
        below = np.flatnonzero(np.convolve(means, np.full(k, 1 / k), "valid") < self._quarters[1] - reach)
        begin = int(below[-1]) + k if len(below) else self._bins
        half = (self._bins - begin) // 2
        if half < WINDOW:
            return math.nan
        rise = self._level(self._bins - half, half) - self._level(begin, half)
        far = critical(SETTLED, noise.degrees) * math.sqrt(2) * noise.error(half)
        return math.nan if rise > far else self._begins[begin]

    # -- intermediate results ----------------------------------------------------------------------------------------

    def _level(self, begin: int, k: int) -> float:
        """Return the mean of ``k`` bins, starting at bin ``begin``."""
        sums, width = self._sums, self._width
        return (sums[begin + k] / width - sums[begin] / width) / k

    @cached_property
    def _quarters(self) -> tuple[float, float]:
        """Return the levels of the first and the last quarter."""
        if not (self._lengths or (self._apart and self._bins)):
            return math.nan, math.nan
        k = self._lengths[-1] if self._lengths else max(self._bins // 4, 1)
        return self._level(0, k), self._level(self._bins - k, k)

    @cached_property
    def _means(self) -> np.ndarray:
        """Return the means of the bins."""
        sums = np.frombuffer(self._sums) / self._width
        return sums[1:] - sums[:-1]

    @cached_property
    def _noise(self) -> Noise:
        """Return the noise. Computing the noise is expensive, so it is repeated only after the run has grown by about a
        sixteenth (at least one bin)."""
        measured = self._bins - self._bins % (1 << max(self._bins.bit_length() - 5, 0))
        return _measured(self._means[:measured].tobytes())

    def _detectable(self, k: int) -> float:
        """Return the smallest detectable difference between the last quarter and the first ``k`` bins."""
        noise = self._noise
        return critical(RISE, noise.degrees) * math.hypot(noise.error(k), noise.error(self._lengths[-1]))

    @cached_property
    def _start(self) -> float:
        """Return the first level, from which the gain is measured.

        The first level is the level of the smallest window that shows a gain, or of the largest window if no window
        shows a gain. If the quarters differ by less than half of the detectable gain, only one or two low first values
        may show a gain. In that case, the first window ends at a rise within the first quarter, if there is a rise that
        noise does not explain.
        """
        begun, now = self._quarters
        if not (self._lengths and now > begun):
            return begun
        windows = self._lengths if now - begun > self.shown / 2 else (self._low_start,)
        levels = {k: self._level(0, k) for k in windows if k}
        return next((level for k, level in levels.items() if now - level > self._detectable(k)), begun)

    @cached_property
    def _low_start(self) -> int:
        """Return the number of bins before a rise within the first quarter; 0 if noise explains the rise. Only the bins
        up to the end of the best quarter count."""
        k = self._lengths[-1]
        sums = np.frombuffer(self._sums)
        best = int((sums[k:] - sums[:-k]).argmax()) + k
        low, worth = rise(self._means[:best], WINDOW) if best > k else (0, 0.0)
        return low if worth > ONCE and low < k else 0

    @cached_property
    def _drops(self) -> list[Drop]:
        """Return the drop from the best window to the last window for each pair of window lengths. The best window is
        at least as wide as the last window."""
        sums, n, drops = np.frombuffer(self._sums), self._bins, []
        lengths = (*self._lengths, max(n // WIDEST, WINDOW)) if self._lengths else ()
        levels = {wide: sums[wide:] - sums[:-wide] for wide in lengths}
        for k, wide in combinations_with_replacement(levels, 2):
            peak = int(levels[wide][: n - k - wide + 1].argmax())
            drops.append(Drop(self._level(peak, wide), self._level(n - k, k), peak, wide, k))
        return drops

    @cached_property
    def _furthest(self) -> list[tuple[float, Drop]]:
        """Return the drops as multiples of the noise range, the largest first."""
        return sorted(((drop.best - drop.end) / self._reach(drop), drop) for drop in self._drops)[::-1]

    def _reach(self, drop: Drop) -> float:
        """Return the largest difference between the two windows of a drop that noise can explain. The result is the
        smallest of up to three estimates. The noise of the whole run is always estimated. The noise of the two windows
        is estimated separately, because a reward at its minimum has almost no noise. After a recent collapse, the noise
        of the earlier values is also estimated, because the collapse dominates the noise of a short run.
        """
        (best, end, peak, wide, k), noise = drop, self._noise
        further = APART if self._few else 1.0
        reach = critical(FALL, noise.degrees) * further * math.hypot(noise.error(k), noise.error(wide))
        if k >= OWN and best - end > HINT * reach:
            degrees = k + wide - 2
            both = squares(self._means[peak : peak + wide], best) + squares(self._means[-k:], end)
            own = Noise(both / degrees, noise.along, degrees, noise.least)
            reach = min(reach, math.hypot(own.error(k), own.error(wide)) * critical(FALL, degrees))
        if k == WINDOW and self._collapsed:
            before = noise_of(self._means[:-k])
            size = critical(FALL, before.degrees) * further
            reach = min(reach, size * math.hypot(before.error(k), before.error(wide)))
        return reach

    @cached_property
    def _collapsed(self) -> bool:
        """Return whether the last two values of a short run are far below all values before the last window. The
        distance must exceed the range of the earlier values."""
        before = self._means[:-WINDOW]
        if not LEAST <= len(before) < SINGLES:
            return False
        return bool(self._means[-2:].max() < 2 * before.min() - before.max())

    @cached_property
    def _last_drop(self) -> Drop | None:
        """Return the drop at the last value, or None. Only a series with few values that are measured far apart is
        tested, because the mean of a window would hide a single value. The last value must be further below the trend
        line of the earlier values than their noise explains."""
        before, n = self._means[:-1], self._bins - 1
        if not (self._few and self._lengths):
            return None
        at = np.arange(n) - (n - 1) / 2
        slope, level = float(at.dot(before) / at.dot(at)), float(before.mean())
        rest = before - level - slope * at
        ahead = (n + 1) / 2
        error = math.sqrt(float(rest.dot(rest)) / (n - 2) * (1 + 1 / n + ahead**2 / float(at.dot(at))))
        end, expected = float(self._means[-1]), level + slope * ahead
        fell = min(expected, float(before.min())) - end > critical(RISE, n - 2) * max(error, self._noise.least)
        return Drop(float(before.max()), end, int(before.argmax()), 1, 1) if fell else None

    @cached_property
    def _drop(self) -> Drop:
        """Return the drop to report. A drop between windows of equal size is preferred, because wide windows blur the
        levels."""
        if self._last_drop is not None:
            return self._last_drop
        sharp = (drop for ratio, drop in self._furthest if ratio > 1 and drop.rows == drop.wide <= self._lengths[-1])
        return next(sharp, self._furthest[0][1])

    def _shows(self) -> bool:
        """Return whether neither noise nor its autocorrelation explains the drop. The lower median of the best window
        must also exceed the last level by half of the detectable drop. The best level must exceed the median of the
        last window by half of the detectable drop. A few values among zeros are not a level, and neither is a single
        low value near the end. For a recent collapse, no change in level needs to be detected, and values that are
        measured far apart have no autocorrelation.
        """
        ratio, (best, end, peak, wide, k) = self._furthest[0]
        if ratio <= 1:
            return False
        usual = float(np.sort(self._means[peak : peak + wide])[(wide - 1) // 2])
        if not 2 * ratio * min(usual - end, best - median(self._means[-k:])) > best - end:
            return False
        return ratio > SURE or self._few or self._collapsed or _sunk(self._means.tobytes())

    @cached_property
    def _few(self) -> bool:
        """Return whether the series has only a few values, measured far apart, whose noise is independent."""
        return self._apart and self._bins < SINGLES

    @cached_property
    def _lowest(self) -> float:
        """Return the lowest level of any window."""
        sums = np.frombuffer(self._sums) / self._width
        return min(float((sums[k:] - sums[:-k]).min()) / k for k in self._lengths)

    def _grade(self, drop: Drop) -> int:
        """Return the importance of a drop that is larger than the noise: 0, 1 or 2."""
        best, end = drop.best, drop.end
        if best - end <= LEAST_FALL * max(abs(best), abs(end)):
            return 0
        lost = (best - end) / best if self._positive else 1.0
        if lost <= MATTERS:
            return 0
        part = (best - end) / (best - self._lowest)
        return int(part > PART) + int(lost > LOST and part > HALF)


@lru_cache(maxsize=64)
def _measured(bins: bytes) -> Noise:
    """Return the noise of bins. The result is cached, because the following rows use the same bins, and a success rate
    may be identical to the reward."""
    return noise_of(np.frombuffer(bins))


@lru_cache(maxsize=64)
def _climbed(bins: bytes) -> float:
    """Return the result of `climbed`, cached like that of `_measured`."""
    return climbed(np.frombuffer(bins), WINDOW)


@lru_cache(maxsize=64)
def _sunk(bins: bytes) -> bool:
    """Return the result of `sunk`, cached like that of `_measured`."""
    return sunk(np.frombuffer(bins), WINDOW)


@cache
def _lengths(bins: int) -> tuple[int, ...]:
    """Return the window lengths for this number of bins, the longest last. The tuple is empty if there are too few
    bins."""
    return tuple(sorted({max(bins // part, WINDOW) for part in PARTS})) if bins >= LEAST else ()


def at_floor(rows: int, low: float, lowest: int) -> bool:
    """Return whether almost every value equals the smallest value, and whether the smallest value is 0 or less."""
    return lowest >= UNPAID * rows and low <= 0
