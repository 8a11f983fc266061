"""The levels of a series: steps, and stretches between two, that autocorrelated noise does not explain nearly as well.

Noise that wanders looks like a change of level, and a step that is fitted to it takes up what makes it wander. So both
explanations are held against each other by their likelihood: noise whose lag-1 autocorrelation may be anything up to
`ALONG`, with the step and without it (Picard, Adv. Appl. Probab. 1985). Terms are found one by one, each where it
explains most, a stretch as one term (Olshen et al., circular binary segmentation, Biostatistics 2004); so many of them
are kept as are worth more than they cost, for a dip may show only beside the step after it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from .noise import LENGTHS, mean

ALONG = 0.6
"""The largest lag-1 autocorrelation that is taken for noise: of the training rewards of 53 public repositories nine in
ten have one below 0.27. What wanders more has levels."""
STEP, MORE = 21.0, 4.0
"""What a step must be worth in n log(S0/S1), S being the squares of the innovations, and each number beyond its height
and its place: the second place of a stretch, and the own noise of the last level. Chosen by simulated flat runs at a
lag-1 of 0.6, of which one or two in a hundred are said to have fallen (`benchmarks/trajectory.md`)."""
TERMS = 4
"""The most terms: a run may rise, dip, recover and fall."""
OWN = 5
"""Values from which the own noise of the last level is known: a reward that lies at its floor has hardly any."""


@lru_cache(maxsize=LENGTHS)
def _weights(n: int, least: int) -> np.ndarray:
    """n over the product of the sizes inside and outside, by where a term begins and ends; 0 where a level would have
    fewer than ``least`` values, and in the last column, where steps belong, which have a row of their own."""
    at = np.arange(n + 1)
    begin, size = at[:, None], at[None, :] - at[:, None]
    weights = np.zeros((n + 1, n + 1))
    allowed = (begin >= least) & (size >= least) & (n - at[None, :] >= least)
    weights[allowed] = n / (size * (n - size))[allowed]
    return weights


@lru_cache(maxsize=LENGTHS)
def _of_steps(n: int, least: int) -> np.ndarray:
    """The same of steps, which end with the series, by where they begin."""
    at = np.arange(n + 1)
    weights = np.zeros(n + 1)
    allowed = (at >= least) & (n - at >= least)
    weights[allowed] = n / (at * (n - at))[allowed]
    return weights


def _terms(rest: np.ndarray, least: int) -> Iterator[tuple[int, int, float]]:
    """The step and the stretch that explain most: where it begins, where it ends, what it costs."""
    n = len(rest)
    sums = np.zeros(n + 1)
    np.add.accumulate(rest, out=sums[1:])
    yield int((sums * sums * _of_steps(n, least)).argmax()), n, STEP
    between = sums[None, :] - sums[:, None]
    between *= between
    between *= _weights(n, least)
    begin, end = divmod(int(between.argmax()), n + 1)
    yield begin, end, STEP + MORE


def _innovations(rest: np.ndarray, along: float) -> float:
    """The squares that are left of the values when each is foretold by the one before, with the best autocorrelation
    from 0 to ``along``."""
    square, product = float(rest.dot(rest)), float(rest[1:].dot(rest[:-1]))
    r = min(max(product / square, 0.0), along) if square > 0 else 0.0
    return square * (1 + r * r) - 2 * r * product


def _own(rest: np.ndarray, last: int, along: float, tiny: float) -> float:
    """What it is worth that the last level, from ``last`` on, has less noise than the rest."""
    n, size = len(rest), len(rest) - last
    if size < OWN:
        return 0.0
    parts = (rest, n), (rest[:last], last), (rest[last:], size)
    whole, before, after = (math.log(max(_innovations(part, along), tiny) / rows) for part, rows in parts)
    return max(n * whole - last * before - size * after - MORE, 0.0) if after < before else 0.0


@np.errstate(over="ignore", invalid="ignore")  # squares beyond 1e308 are infinite, and show nothing
def sunk(x: np.ndarray, along: float, least: int) -> bool:
    """Whether the last level lies below another, each of ``least`` values at least."""
    n, rounding = len(x), 1e-9 * float(np.abs(x).max())
    tiny = n * rounding * rounding + 1e-300
    rest = best = x - mean(x)
    left, worth, most, last = _innovations(rest, along), 0.0, 0.0, 0
    known = np.empty((TERMS, n))
    for number in range(TERMS):
        found = []
        for begin, end, cost in _terms(rest, least) if tiny < left < math.inf else ():
            term = np.zeros(n)
            term[begin:end] = 1
            term -= (end - begin) / n
            term -= known[:number].dot(term).dot(known[:number])
            square = float(term.dot(term))
            if square > 1e-9:
                term /= math.sqrt(square)
                without = rest - term * term.dot(rest)
                kept = max(_innovations(without, along), tiny)
                gain = n * (math.log(left) - math.log(kept)) - cost
                found.append((gain, begin if end == n else end, kept, term, without))
        if not found:
            break
        gain, place, left, known[number], rest = max(found, key=lambda one: one[0])
        worth, last = worth + gain, max(last, place)
        if (told := worth + _own(rest, last, along, tiny)) > most:
            most, best = told, rest
    fitted = x - best
    return bool(fitted[-1] < fitted.max() - rounding)
