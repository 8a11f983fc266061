"""Statistical tests of counts and of associations in time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np


@lru_cache(maxsize=4096)
def fisher(hit: float, missed: float, hit_else: float, missed_else: float) -> float:
    """Return the p-value of Fisher's one-sided exact test of whether the first row of a 2x2 table has a higher rate
    than the second row."""
    a, b, c, d = int(hit), int(missed), int(hit_else), int(missed_else)
    n, exposed, hits = a + b + c + d, a + b, a + c
    if exposed == 0 or exposed == n or hits == 0 or hits == n:
        return 1.0
    if n > 2000:  # normal approximation, because the cost of the exact sum grows with the run
        z = (a - exposed * hits / n) / math.sqrt(exposed * (n - exposed) * hits * (n - hits) / n**2 / (n - 1))
        return math.erfc(z / math.sqrt(2)) / 2
    ways = sum(math.comb(exposed, k) * math.comb(n - exposed, hits - k) for k in range(a, min(exposed, hits) + 1))
    return ways / math.comb(n, hits)


def shift_p(exposed: Sequence[float], outcome: Sequence[float]) -> float:
    """Return the exact p-value of the risk difference over all circular shifts of the exposure, which preserve its
    autocorrelation."""
    x, y = np.asarray(exposed, float), np.asarray(outcome, float)
    ones = x.sum()
    if len(x) < 2 or ones in (0, len(x)):
        return 1.0
    hits = np.array([np.roll(x, k) @ y for k in range(len(x))])
    difference = hits / ones - (y.sum() - hits) / (len(x) - ones)
    return float(np.mean(difference >= difference[0] - 1e-12))


LAST = 200
"""Maximum number of transitions in a permutation test, because the cost of the test must not grow with the run."""
_BITS = (1 << LAST) - 1


class Pairs(NamedTuple):
    """The last transitions as bits, the newest last, the total number of transitions, and the most recently computed
    p-value."""

    exposed: int = 0
    outcome: int = 0
    seen: int = 0
    p: float = 1.0

    @staticmethod
    def shift_p(pairs: Pairs, known: Any, exposed: Any, outcome: Any, wanted: Any) -> tuple[Pairs, float]:
        """Add a transition, and return the circular-shift p-value of the transitions so far. A `fold` calls this method
        on each row. The p-value is computed on demand."""
        if known:
            exposures = (pairs.exposed << 1 | bool(exposed == 1)) & _BITS
            outcomes = (pairs.outcome << 1 | bool(outcome)) & _BITS
            seen, p = pairs.seen + 1, pairs.p
            if wanted and (seen <= LAST or seen % 50 == 0):
                rows = min(seen, LAST)
                p = shift_p(*([float(digit) for digit in f"{bits:0{rows}b}"] for bits in (exposures, outcomes)))
            pairs = Pairs(exposures, outcomes, seen, p)
        return pairs, pairs.p
