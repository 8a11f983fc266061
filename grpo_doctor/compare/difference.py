"""Measures how much a metric differs between two arms, and computes the smallest detectable difference.

**Compared values.** The means over the last half of the shared places are compared. If the runs diverged later, the
means since the divergence are compared.

**Noise along a run.** This noise is the residual of the paired difference after fitting steps, ramps and stretches
(`series.changepoint`). A change in level therefore does not count as noise. The autocorrelation of the noise is
estimated (`series.noise_model`). A step, ramp or stretch must explain a difference better than autocorrelated noise
does, and the level of the difference must exceed the noise.

**Noise between seeds.** Runs with different seeds have different curves, which a single run cannot show. With one run
per side, the standard deviation between seeds is assumed to be `SEED` times the change in the metric in the arm that
changed less. With several runs per side, the assumed variance is combined with the measured variance, as a prior with
`PRIOR` degrees of freedom (Smyth, Stat. Appl. Genet. Mol. Biol. 2004). A difference that exceeds the noise of both runs
but may be due to seeds is inconclusive.

**Many metrics.** The critical values account for seven metrics that are tested at once. `benchmarks/compare.md` has the
simulated error rates.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np

from ..diagnosis.wording import number
from ..run import RunType
from ..series.changepoint import Departures, departures
from ..series.noise_model import critical, split
from ..series.trajectory import SUCCESS, TURNED
from ..series.trend import UNIT, WINDOW
from .align import Aligned

METRICS: dict[str, tuple[str, int]] = {
    **{field: (name, 1) for field, name in reversed(SUCCESS.items())},
    "invalid_rate": ("invalid rate", -1),
    "entropy_mean": ("entropy", 0),
    "kl": ("KL", 0),
    "response_length_mean": ("response length", 0),
}
"""The compared metrics by field: name, and whether a higher value is better (1), worse (-1) or neither (0). Held-out
scores come first and override the reward."""
LOSSES: dict[str, tuple[str, int]] = {field: (name, -1) for field, name in reversed(TURNED.items())}
"""Additional metrics of a supervised or preference run."""
LEAST = 8
"""Minimum number of shared places to estimate noise."""
BINS = 128
"""Maximum number of bins into which the shared places are divided. The means of the bins are compared."""
DIFFERS, SEEDS_DIFFER = 4.2, 2.69
"""Critical values of a two-sided test of seven metrics together, at the 5% level. `DIFFERS` is for a level, in standard
errors of the noise along the runs. `DIFFERS` also accounts for the search for the place at which the difference begins.
`SEEDS_DIFFER` is for the difference between seeds, in standard errors."""
POWER = 1.9
"""Number of standard errors by which a true difference must exceed the critical value to be found in 80% of pairs. The
noise of the level accounts for 0.84 standard errors. The rest of `POWER` is needed because the shape of the difference
must also be found (`benchmarks/compare.md`)."""
ROUNDING = 1e-6
"""Maximum detectable difference, as a share of the level or the scale, that counts as a rounding error because the
series have no noise."""
COARSE = 0.5
"""Share of the scale at or above which the smallest detectable difference is too large to conclude that there is no
difference."""
SEED, PRIOR = 0.2, 4
"""`SEED`: assumed standard deviation between seeds, as a share of the change in the metric. `PRIOR`: weight of the
assumed standard deviation, in degrees of freedom."""


def metrics_of(run_type: RunType) -> dict[str, tuple[str, int]]:
    """Return the compared metrics of a run of this type, by field."""
    return METRICS if run_type == "rl" else LOSSES | METRICS


class Difference(msgspec.Struct, kw_only=True):
    """How one metric differs at the end of the shared places.

    Attributes:
        base, new: level of each arm.
        difference: new minus base.
        low, high: ends of the simultaneous 95% interval; NaN if the runs share too few places.
        along: half the width of the interval without the effect of seeds.
        detectable: the smallest difference that is found in 80% of pairs of arms, at most ``scale``.
        scale: 1 for success scores between 0 and 1, otherwise the range of the values.
        places: number of averaged places.
        since: the place at which the difference begins; NaN if the runs do not differ.
        better: 1 if ``new`` is better beyond noise, -1 if ``new`` is worse, otherwise 0. Metrics without a direction
            always have 0.
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
        """Return whether the noise could be estimated."""
        return not math.isnan(self.low)

    @property
    def differs(self) -> bool:
        """Return whether the difference exceeds the noise along the runs, regardless of the noise between seeds."""
        return not math.isnan(self.since)

    @property
    def beyond_noise(self) -> bool:
        """Return whether the difference exceeds both the noise along the runs and the noise between seeds."""
        return self.differs and (self.low > 0 or self.high < 0)

    @property
    def inconclusive(self) -> bool:
        """Return whether the runs neither show nor rule out a difference."""
        if not self.known or self.beyond_noise:
            return False
        return self.differs or self.detectable >= COARSE * self.scale > 0

    @property
    def words(self) -> str:
        """Return the judgement in a few words."""
        if not self.known:
            return "too few to judge"
        if not self.differs:
            return "inconclusive: too noisy" if self.inconclusive else "no difference beyond noise"
        way = "higher" if self.difference > 0 else "lower"
        return way if self.beyond_noise else f"inconclusive: {way}, but seeds may differ as much"

    @property
    def sentence(self) -> str:
        """Return the difference as a clause, with its numbers."""
        levels = f"{number(self.base)} in BASE and {number(self.new)} in NEW"
        if not self.known:
            return f"the {self.label} is {levels}, over too few shared steps to judge"
        if self.beyond_noise:
            return f"the {self.label} is {self.words} ({number(self.base)} → {number(self.new)})"
        if self.differs:
            way = "higher" if self.difference > 0 else "lower"
            seeds = "runs of one setting with different seeds may differ as much"
            return f"the {self.label} is {way} in NEW ({number(self.base)} → {number(self.new)}), but {seeds}"
        if self.inconclusive:
            return f"the {self.label} is {levels}, and the noise hides differences of up to {number(self.detectable)}"
        power = " (80% power)" if self.noisy else ""
        return f"the {self.label} is {levels}; smallest detectable difference: {self.shown}{power}"

    @property
    def noisy(self) -> bool:
        """Return whether the detectable difference exceeds rounding errors. The result is false if the series have no
        noise."""
        return not self.detectable <= ROUNDING * max(abs(self.base), abs(self.new), self.scale)

    @property
    def shown(self) -> str:
        """Return the smallest detectable difference in words; a dash if there is no noise."""
        return number(self.detectable) if self.noisy else "–"


def departures_of(aligned: Aligned) -> tuple[Departures, np.ndarray]:
    """Return the departures of the binned difference from 0, and the index at which each bin begins."""
    d = aligned.difference()
    edges = np.linspace(0, len(d), min(len(d), BINS) + 1).astype(int)
    return departures(np.add.reduceat(d, edges[:-1]) / np.diff(edges), WINDOW), edges


def span_of(fitted: np.ndarray, begin: int, end: int) -> tuple[int, int]:
    """Return the span from ``begin`` to ``end``, adjusted to the fitted difference. Both ends of the span move to the
    places at which the difference crosses half of its mean over the span. A ramp therefore begins at its middle, and a
    span that a later term continues ends with the later term."""
    level = float(fitted[begin:end].mean())
    there = fitted * np.sign(level) > abs(level) / 2
    first = begin + int(there[begin:end].argmax())
    gone = np.flatnonzero(~there[end:])
    before = np.flatnonzero(~there[:first])
    return int(before[-1]) + 1 if len(before) else 0, end + int(gone[0]) if len(gone) else len(fitted)


def place_of(begin: int, edges: np.ndarray, d: np.ndarray) -> int:
    """Return the index of the place at which a departure begins, with a finer resolution than that of the bins."""
    if begin == 0 or edges[begin + 1] - edges[begin - 1] < 4:
        return int(edges[begin])
    return int(edges[begin - 1]) + split(d[edges[begin - 1] : edges[begin + 1]])


def difference_of(metric: str, label: str, sign: int, aligned: Aligned) -> Difference:
    """Return the difference of one metric. ``sign`` is 1 if a higher value is better, -1 if a higher value is worse,
    and 0 for neither."""
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
    """Return the levels of both arms from the place with index ``start`` to the end."""
    base, new = (float(arm[:, start:].mean()) for arm in (aligned.base, aligned.new))
    return Difference(
        metric=metric, label=label, base=base, new=new, difference=new - base, places=len(aligned.x) - start
    )


def scale_of(aligned: Aligned) -> float:
    """Return the possible range of a success score: 1 if all values are between 0 and 1, otherwise the range of the
    values."""
    values = np.concatenate((aligned.base.ravel(), aligned.new.ravel()))
    return 1.0 if values.min() >= 0 and UNIT < values.max() <= 1 else spread_of(aligned)


def spread_of(aligned: Aligned) -> float:
    """Return the range of the values of both arms."""
    return float(max(aligned.base.max(), aligned.new.max()) - min(aligned.base.min(), aligned.new.min()))


def seed_error(aligned: Aligned, base: np.ndarray, new: np.ndarray) -> float:
    """Return the standard error of the difference due to seeds. ``base`` and ``new`` contain the level of each run."""
    free = len(base) + len(new) - 2
    measured = float(((base - base.mean()) ** 2).sum() + ((new - new.mean()) ** 2).sum())
    guessed = SEED * smaller_change(aligned)
    variance = (PRIOR * guessed**2 + measured) / (PRIOR + free)
    return math.sqrt(variance * (1 / len(base) + 1 / len(new)))


def smaller_change(aligned: Aligned) -> float:
    """Split each arm into eighths and take the range of their means. Return the smaller range of the two arms.

    Seeds affect how fast a run follows its curve. If one arm is flat and the other arm changes, the difference is not
    due to seeds.
    """
    eighths = np.array_split(np.arange(len(aligned.x)), min(8, len(aligned.x)))
    levels = [np.array([arm.mean(axis=0)[part].mean() for part in eighths]) for arm in (aligned.base, aligned.new)]
    return float(min(np.ptp(level) for level in levels))
