"""How much a metric differs between two arms, and which difference the noise would have hidden.

**What is compared** is where the runs end: the mean over the last half of the places that all of them share, or since
the runs diverged where that is later.

**Noise along a run** is what the steps, ramps and stretches of the paired difference leave (`series.changepoint`),
with its autocorrelation (`series.noise_model`): a change of level is not noise. A difference must be explained better
by such a shape than by autocorrelated noise, and its level must exceed the noise.

**Noise between seeds.** Another seed gives another curve, which no single run shows. With one run per side the
deviation between seeds is assumed to be `SEED` of how far the metric has moved in both. Measured seeds replace that
assumption, as a variance moderated by a prior (Smyth, Stat. Appl. Genet. Mol. Biol. 2004) worth `PRIOR` degrees of
freedom. A difference beyond the noise of both runs that seeds may explain is inconclusive.

**Many metrics.** The critical values hold for seven metrics at once; `benchmarks/compare.md` has the simulated error
rates.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np

from ..diagnosis.wording import number
from ..run import RunType
from ..series.changepoint import Departures, departures
from ..series.noise_model import critical, split
from ..series.trend import UNIT, WINDOW
from .align import Aligned

METRICS: dict[str, tuple[str, int]] = {
    "eval_score": ("held-out score", 1),
    "success_rate": ("success rate", 1),
    "reward_mean": ("reward", 1),
    "invalid_rate": ("invalid rate", -1),
    "entropy_mean": ("entropy", 0),
    "kl": ("KL", 0),
    "response_length_mean": ("response length", 0),
}
"""What is compared: field, its name, and whether more of it is better, worse, or neither. What is held out comes first:
it judges where it contradicts the reward."""
LOSSES: dict[str, tuple[str, int]] = {"eval_loss": ("held-out loss", -1), "loss": ("loss", -1)}
"""The same of a supervised or preference run, beside these."""
LEAST = 8
"""Shared places from which noise can be estimated."""
BINS = 128
"""Means over so many parts of the shared places are compared at most."""
DIFFERS, SEEDS_DIFFER = 4.2, 2.69
"""Critical values of a level, in standard errors of the noise along the runs, whose places were searched for; and in
deviations between seeds: two-sided 5 % shared by seven metrics."""
POWER = 1.9
"""Standard errors by which a true difference must exceed the critical one to be found in 80 % of pairs: 0.84 for the
noise of the level, the rest because the shape must be found too (`benchmarks/compare.md`)."""
COARSE = 0.5
"""Share of a 0-to-1 scale from which what could be detected is too coarse to say that there is no difference."""
SEED, PRIOR = 0.2, 4
"""Deviation between seeds as a share of how far the metric has moved, and its weight in degrees of freedom."""


def metrics_of(run_type: RunType) -> dict[str, tuple[str, int]]:
    """The metrics that are compared in such a run, by field."""
    return METRICS if run_type == "rl" else LOSSES | METRICS


class Difference(msgspec.Struct, kw_only=True):
    """How one metric differs at the end of the shared places.

    Attributes:
        base, new: level of each arm; difference: new less base.
        low, high: ends of the simultaneous 95 % interval; NaN where too few places are shared.
        along: half the width that the interval would have if seeds made no difference.
        detectable: the smallest difference between these runs that is found in 80 % of such pairs, no more than
            ``scale``: 1 for scores within 0 and 1, else the range of the values.
        places: shared places that were averaged; since: the place from which the runs differ, NaN where they do not.
        better: 1 where new is better beyond noise, -1 where it is worse, else 0; also 0 where neither is success.
    """

    metric: str
    label: str
    base: float
    new: float
    difference: float
    low: float = math.nan
    high: float = math.nan
    along: float = math.nan
    detectable: float = math.nan
    scale: float = math.nan
    places: int
    since: float = math.nan
    better: int = 0

    @property
    def known(self) -> bool:
        """Whether the noise could be estimated."""
        return not math.isnan(self.low)

    @property
    def differs(self) -> bool:
        """Whether these runs differ beyond their noise, whatever seeds may do."""
        return not math.isnan(self.since)

    @property
    def beyond_noise(self) -> bool:
        """Whether the difference is beyond the noise of the runs and what seeds do."""
        return self.differs and (self.low > 0 or self.high < 0)

    @property
    def inconclusive(self) -> bool:
        """Whether neither a difference nor its absence is shown."""
        if not self.known or self.beyond_noise:
            return False
        return self.differs or self.detectable >= (COARSE if self.scale == 1 else 1) * self.scale > 0

    @property
    def words(self) -> str:
        """The judgement in a few words."""
        if not self.known:
            return "too few to tell"
        if not self.differs:
            return "inconclusive: too noisy" if self.inconclusive else "no difference beyond noise"
        way = "higher" if self.difference > 0 else "lower"
        return way if self.beyond_noise else f"inconclusive: {way}, but seeds may differ as much"

    @property
    def sentence(self) -> str:
        """What is known of the difference, with its numbers, as a clause."""
        levels = f"{number(self.base)} in BASE and {number(self.new)} in NEW"
        if not self.known:
            return f"the {self.label} is {levels}, over too few shared places to judge"
        if self.beyond_noise:
            return f"the {self.label} is {self.words} ({number(self.base)} → {number(self.new)})"
        if self.differs:
            way = "higher" if self.difference > 0 else "lower"
            seeds = "runs of one setting with different seeds may differ as much"
            return f"the {self.label} is {way} in NEW ({number(self.base)} → {number(self.new)}), but {seeds}"
        if self.inconclusive:
            return f"the {self.label} is {levels}, and the noise hides differences of up to {number(self.detectable)}"
        detectable = f"smallest detectable difference: {number(self.detectable)} (80 % power)"
        return f"the {self.label} is {levels}; {detectable}"


def departures_of(aligned: Aligned) -> tuple[Departures, np.ndarray]:
    """Where the difference of two arms leaves 0, in bins, and at which place each bin begins."""
    d = aligned.difference()
    edges = np.linspace(0, len(d), min(len(d), BINS) + 1).astype(int)
    return departures(np.add.reduceat(d, edges[:-1]) / np.diff(edges), WINDOW), edges


def span_of(fitted: np.ndarray, begin: int, end: int) -> tuple[int, int]:
    """The bins around ``begin`` to ``end`` at which the fitted difference is more than half of its mean there: a ramp
    is dated where it is halfway, and what a later term continues ends with that."""
    level = float(fitted[begin:end].mean())
    there = fitted * np.sign(level) > abs(level) / 2
    first = begin + int(there[begin:end].argmax())
    gone = np.flatnonzero(~there[end:])
    before = np.flatnonzero(~there[:first])
    return int(before[-1]) + 1 if len(before) else 0, end + int(gone[0]) if len(gone) else len(fitted)


def place_of(begin: int, edges: np.ndarray, d: np.ndarray) -> int:
    """The place at which a departure begins that was found in bins."""
    if begin == 0 or edges[begin + 1] - edges[begin - 1] < 4:
        return int(edges[begin])
    return int(edges[begin - 1]) + split(d[edges[begin - 1] : edges[begin + 1]])


def difference_of(metric: str, label: str, sign: int, aligned: Aligned) -> Difference:
    """The difference of one metric; ``sign`` is 1 where more of it is better, -1 where it is worse, 0 for neither."""
    count = len(aligned.x)
    if count < LEAST:
        return _levels(metric, label, aligned, 0)
    (spans, fitted, noise), edges = departures_of(aligned)
    bins, half = len(edges) - 1, (len(edges) - 1) // 2 if count >= 2 * LEAST else 0
    last = min(max([half, *(place for span in spans for place in span if place < bins)]), bins - WINDOW)
    told = _levels(metric, label, aligned, int(edges[last]))
    rounding = 1e-9 * max(abs(told.base), abs(told.new))
    error = max(noise.error(bins - last), rounding)
    told.along = critical(DIFFERS, noise.degrees) * error
    seeds = SEEDS_DIFFER * seed_error(aligned, *(arm[:, edges[last] :].mean(axis=1) for arm in aligned[1:]))
    width = math.hypot(told.along, seeds)
    told.low, told.high = told.difference - width, told.difference + width
    told.scale = scale_of(aligned) if sign else spread_of(aligned)
    told.detectable = min(told.along + critical(POWER, noise.degrees) * error, told.scale)
    if abs(told.difference) > told.along and float(fitted[last:].mean()) * told.difference > 0:
        begin, _ = span_of(fitted, last, bins)
        told.since = float(aligned.x[place_of(begin, edges, aligned.difference())])
    if told.beyond_noise:
        told.better = sign if told.difference > 0 else -sign
    return told


def _levels(metric: str, label: str, aligned: Aligned, start: int) -> Difference:
    """The levels of both arms from a place to the end."""
    base, new = (float(arm[:, start:].mean()) for arm in (aligned.base, aligned.new))
    return Difference(
        metric=metric, label=label, base=base, new=new, difference=new - base, places=len(aligned.x) - start
    )


def scale_of(aligned: Aligned) -> float:
    """The possible range of a success score: 1 if all values are between 0 and 1, else the range of the values."""
    values = np.concatenate((aligned.base.ravel(), aligned.new.ravel()))
    return 1.0 if values.min() >= 0 and UNIT < values.max() <= 1 else spread_of(aligned)


def spread_of(aligned: Aligned) -> float:
    """The range of the values of both arms."""
    return float(max(aligned.base.max(), aligned.new.max()) - min(aligned.base.min(), aligned.new.min()))


def seed_error(aligned: Aligned, base: np.ndarray, new: np.ndarray) -> float:
    """The error of the difference that comes from the seeds: ``base`` and ``new`` hold the level of each run."""
    free = len(base) + len(new) - 2
    measured = float(((base - base.mean()) ** 2).sum() + ((new - new.mean()) ** 2).sum())
    guessed = SEED * moved(aligned)
    variance = (PRIOR * guessed**2 + measured) / (PRIOR + free)
    return math.sqrt(variance * (1 / len(base) + 1 / len(new)))


def moved(aligned: Aligned) -> float:
    """How far the metric has moved in the arm that moved less: the range of its means over eighths of the places.

    What seeds vary is how a curve is run through; where one arm stands still and the other moves, they are no seeds of
    one curve.
    """
    eighths = np.array_split(np.arange(len(aligned.x)), min(8, len(aligned.x)))
    levels = [np.array([arm.mean(axis=0)[part].mean() for part in eighths]) for arm in (aligned.base, aligned.new)]
    return float(min(np.ptp(level) for level in levels))
