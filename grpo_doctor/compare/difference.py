"""How much a metric differs between two arms, and which difference the noise would have hidden.

**What is compared** is where the runs stand: the mean over the last half of the places that all of them share.

**Noise along a run.** The differences at shared places are autocorrelated. The error of their mean is that of a paired
circular block bootstrap (Politis and Romano 1992), taken in closed form, so that no draw of random numbers decides a
verdict. The length of a block follows from the lag-1 autocorrelation (Andrews, Econometrica 1991, the rule for AR(1)
and Bartlett weights), which is corrected for its bias (Kendall 1954) and raised by a third of its standard error. Where
the formula for AR(1) gives a larger error, that one is taken: blocks of a short series are too short for long waves.

**Noise between seeds.** Another seed gives another curve, which no single run shows. With one run a side the deviation
between seeds is taken as `SEED` of how far the metric has moved in both; measured seeds replace that guess as they come
in, as a variance that is moderated by a prior (Smyth, Stat. Appl. Genet. Mol. Biol. 2004) worth `PRIOR` degrees of
freedom.

**Many metrics.** The intervals hold together: 95 % for `METRICS` at once (Bonferroni), with a further allowance for
few places. `benchmarks/compare.md` has the simulated error rates.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np

from ..run import RunType
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
"""Shared places from which noise can be told."""
CRITICAL = (2.69, 15.0)
"""Critical value ``a + b / places`` of one metric: two-sided 5 % shared by seven."""
POWER = (2.0, 14.0)
"""Deviations ``a + b / places`` by which a true difference must exceed the critical one to be seen in 80 % of pairs:
0.84 where the noise is known, more where it and the seeds' are estimated."""
SEED, PRIOR = 0.2, 4
"""Deviation between seeds as a share of how far the metric has moved, and its weight in degrees of freedom."""


def metrics_of(run_type: RunType) -> dict[str, tuple[str, int]]:
    """The metrics that are compared in such a run, by field."""
    return METRICS if run_type == "rl" else LOSSES | METRICS


class Difference(msgspec.Struct, kw_only=True):
    """How one metric differs over the last half of the shared places.

    Attributes:
        base, new: level of each arm; difference: new less base.
        low, high: ends of the simultaneous 95 % interval; NaN where too few places are shared.
        along: half the width that the interval would have if seeds made no difference.
        detectable: the smallest true difference that is seen in 80 % of such pairs.
        places, block: shared places that were averaged, and length of a block in places.
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
    places: int
    block: int = 0
    better: int = 0

    @property
    def known(self) -> bool:
        """Whether noise could be told at all."""
        return not math.isnan(self.low)

    @property
    def beyond_noise(self) -> bool:
        return self.low > 0 or self.high < 0

    @property
    def words(self) -> str:
        """``higher``, ``higher, as seeds may be``, ``no difference beyond noise`` or ``too few to tell``."""
        if not self.known:
            return "too few to tell"
        way = "higher" if self.difference > 0 else "lower"
        if self.beyond_noise:
            return way
        return f"{way}, as seeds may be" if abs(self.difference) > self.along else "no difference beyond noise"


def difference_of(metric: str, label: str, sign: int, aligned: Aligned) -> Difference:
    """The difference of one metric; ``sign`` is 1 where more of it is better, -1 where it is worse, 0 for neither."""
    count = len(aligned.x)
    tail = slice(count // 2 if count >= 2 * LEAST else 0, None)
    base, new = aligned.base[:, tail], aligned.new[:, tail]
    paired = new.mean(axis=0) - base.mean(axis=0)
    told = Difference(
        metric=metric,
        label=label,
        base=float(base.mean()),
        new=float(new.mean()),
        difference=float(paired.mean()),
        places=len(paired),
    )
    if len(paired) < LEAST:
        return told
    along, told.block = standard_error(paired)
    along = max(along, 1e-9 * max(abs(told.base), abs(told.new)))  # rounding is no difference
    error = math.hypot(along, seed_error(aligned, base.mean(axis=1), new.mean(axis=1)))
    critical = CRITICAL[0] + CRITICAL[1] / len(paired)
    told.along = critical * along
    told.low, told.high = told.difference - critical * error, told.difference + critical * error
    told.detectable = (critical + POWER[0] + POWER[1] / len(paired)) * error
    if told.beyond_noise:
        told.better = sign if told.difference > 0 else -sign
    return told


def standard_error(d: np.ndarray) -> tuple[float, int]:
    """The standard error of the mean of autocorrelated values, [places], and the length of a block in places."""
    n = len(d)
    rest = d - d.mean()
    along = autocorrelation(rest, fitted=1)
    block = round(1.1447 * (4 * along**2 / (1 - along**2) ** 2 * n) ** (1 / 3))
    block = min(max(block, 1), n // 2)
    total = np.concatenate(([0.0], np.cumsum(np.concatenate((rest, rest[: block - 1])))))
    blocks = (total[block:] - total[:-block])[:n]
    drawn = math.sqrt(float(blocks @ blocks) / (n * block) / n)
    formula = math.sqrt(float(rest @ rest) / max(n - 1, 1) * min((1 + along) / (1 - along) / n, 1.0))
    return max(drawn, formula), block


def autocorrelation(rest: np.ndarray, fitted: int) -> float:
    """Lag-1 autocorrelation of residuals, corrected for so many fitted terms and raised by a third of its error."""
    n, square = len(rest), float(rest @ rest)
    along = float(rest[1:] @ rest[:-1]) / square if square > 0 else 0.0
    along += (fitted + (fitted + 2) * max(along, 0.0)) / n + 0.3 / math.sqrt(n)
    return min(max(along, 0.0), 0.95)


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
