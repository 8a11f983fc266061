"""Finds changes in the level of a series that explain the series much better than autocorrelated noise does. A change
is a step, which lasts to the end of the series, or a stretch between two steps.

Autocorrelated noise looks like a change in level, and fitting a step to such noise hides its autocorrelation. The
likelihoods with and without the step are therefore compared for noise with any lag-1 autocorrelation up to `ALONG`
(Picard, Adv. Appl. Probab. 1985). Terms are added one by one, each at the position at which it explains the most. A
stretch is one term (Olshen et al., circular binary segmentation, Biostatistics 2004). The number of terms with the best
score is kept, because a dip may be visible only together with the step that follows it. Slow changes are fitted as
slopes. A fall is a slope or several levels, and a gain is a slope or a single step.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from .noise_model import LENGTHS, Noise, mean, noise_left

ALONG = 0.6
"""The largest lag-1 autocorrelation that counts as noise. A larger autocorrelation is attributed to changes in level.
Most public rewards have an autocorrelation below half of `ALONG` (`benchmarks.corpus.autocorrelation`)."""
STEP, MORE, SLOPE = 23.0, 4.0, 22.0
"""The minimum evidence n log(S0/S1), where S0 and S1 are the sums of the squared innovations without and with the term.
`STEP` is the limit for a step, `MORE` for each additional parameter, and `SLOPE` for a slope. Additional parameters are
the second end of a stretch, and the separate noise of the last level. The limits were chosen on simulated runs and
validated on labelled logs (`benchmarks/trajectory.md`)."""
RISING, ONCE = 8.0, 14.0
"""`RISING`: the minimum evidence for the slope of a gain. `ONCE`: the minimum evidence for the step of a gain. `RISING`
and `ONCE` are lower than `SLOPE` and `STEP`, because a gain must also pass a t-test and counts only at the end of the
run. Fewer than one in a hundred flat runs with a lag-1 autocorrelation of 0.3 show a gain."""
APART, APART_FOR_A_TIME = 14.0, 22.0
"""`APART`: the minimum evidence that a difference departs from 0 until the end of the series. `APART_FOR_A_TIME`: the
minimum evidence for a temporary departure. `benchmarks/compare.md` has the error rates."""
TERMS = 4
"""Maximum number of terms: a run may rise, dip, recover and fall."""
OWN = 5
"""Minimum number of values of the last level for a separate estimate of its noise, because a reward at its minimum has
almost no noise."""


@lru_cache(maxsize=LENGTHS)
def _weights(n: int, least: int) -> np.ndarray:
    """Return n divided by the product of the sizes inside and outside a term, for each start and end of the term. The
    quotient is 0 if a level has fewer than ``least`` values, and in the last column, because `_of_steps` computes the
    quotient for steps."""
    at = np.arange(n + 1)
    begin, size = at[:, None], at[None, :] - at[:, None]
    weights = np.zeros((n + 1, n + 1))
    allowed = (begin >= least) & (size >= least) & (n - at[None, :] >= least)
    weights[allowed] = n / (size * (n - size))[allowed]
    return weights


@lru_cache(maxsize=LENGTHS)
def _of_steps(n: int, least: int) -> np.ndarray:
    """Return the quotient of `_weights` for each start of a step. A step lasts to the end of the series."""
    at = np.arange(n + 1)
    weights = np.zeros(n + 1)
    allowed = (at >= least) & (n - at >= least)
    weights[allowed] = n / (at * (n - at))[allowed]
    return weights


def _terms(rest: np.ndarray, least: int) -> Iterator[tuple[int, int, float]]:
    """Yield the start, end and cost of the step and of the stretch that explain the most."""
    n = len(rest)
    sums = np.zeros(n + 1)
    np.add.accumulate(rest, out=sums[1:])
    yield int((sums * sums * _of_steps(n, least)).argmax()), n, STEP
    between = sums[None, :] - sums[:, None]
    between *= between
    between *= _weights(n, least)
    begin, end = divmod(int(between.argmax()), n + 1)
    yield begin, end, STEP + MORE


def _innovations(rest: np.ndarray) -> float:
    """Return the sum of the squared residuals when each value is predicted from the previous value, with the best
    autocorrelation from 0 to `ALONG`."""
    square, product = float(rest.dot(rest)), float(rest[1:].dot(rest[:-1]))
    r = min(max(product / square, 0.0), ALONG) if square > 0 else 0.0
    return square * (1 + r * r) - 2 * r * product


def _own(rest: np.ndarray, last: int, tiny: float) -> float:
    """Return the evidence that the last level, starting at ``last``, has less noise than the rest."""
    n, size = len(rest), len(rest) - last
    if size < OWN:
        return 0.0
    parts = (rest, n), (rest[:last], last), (rest[last:], size)
    whole, before, after = (math.log(max(_innovations(part), tiny) / rows) for part, rows in parts)
    return max(n * whole - last * before - size * after - MORE, 0.0) if after < before else 0.0


def _rounding(x: np.ndarray) -> tuple[float, float]:
    """Return the rounding error of values of this size, and the sum of squared innovations that rounding can cause."""
    digit = 1e-9 * float(np.abs(x).max())
    return digit, len(x) * digit * digit + 1e-300


def _worth(rest: np.ndarray, term: np.ndarray, tiny: float) -> float:
    """Return the evidence that ``rest`` contains a term that rises. The evidence is 0 if the term falls, or if ``rest``
    is within the rounding error or overflows."""
    height, square, left = float(term.dot(rest)), float(term.dot(term)), _innovations(rest)
    if not (height > 0 and square > 0 and tiny < left < math.inf):
        return 0.0
    kept = max(_innovations(rest - term * (height / square)), tiny)
    return len(rest) * (math.log(left) - math.log(kept))


@lru_cache(maxsize=LENGTHS)
def _slope(n: int) -> np.ndarray:
    """Return n evenly spaced values with mean 0."""
    return np.arange(n) - (n - 1) / 2


@np.errstate(over="ignore", invalid="ignore")  # squares above 1e308 overflow and give no evidence
def rise(x: np.ndarray, least: int) -> tuple[int, float]:
    """Return the position of the best single rise between levels of at least ``least`` values, and the evidence for the
    rise."""
    n, tiny, rest = len(x), _rounding(x)[1], x - mean(x)
    below = np.minimum(np.add.accumulate(np.concatenate(([0.0], rest))), 0.0)
    begin = int((below * below * _of_steps(n, least)).argmax())
    return begin, _worth(rest, (np.arange(n) >= begin) - (n - begin) / n, tiny)


@np.errstate(over="ignore", invalid="ignore")  # squares above 1e308 overflow and give no evidence
def climbed(x: np.ndarray, least: int) -> float:
    """Return the evidence for a rise as a multiple of `RISING` or `ONCE`, or 0 if the series does not rise. A rise is a
    slope, or a step between levels of at least ``least`` values."""
    slope = _worth(x - mean(x), _slope(len(x)), _rounding(x)[1])
    return max(slope / RISING, rise(x, least)[1] / ONCE)


@np.errstate(over="ignore", invalid="ignore")  # squares above 1e308 overflow and give no evidence
def sunk(x: np.ndarray, least: int) -> bool:
    """Return whether the series falls overall, or whether its last level is below another level. A level has at least
    ``least`` values."""
    n, (rounding, tiny) = len(x), _rounding(x)
    rest = best = x - mean(x)
    if _worth(-rest, _slope(n), tiny) > SLOPE:
        return True
    left, worth, most, last = _innovations(rest), 0.0, 0.0, 0
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
                kept = max(_innovations(without), tiny)
                gain = n * (math.log(left) - math.log(kept)) - cost
                found.append((gain, begin if end == n else end, kept, term, without))
        if not found:
            break
        gain, place, left, known[number], rest = max(found, key=lambda one: one[0])
        worth, last = worth + gain, max(last, place)
        if (told := worth + _own(rest, last, tiny)) > most:
            most, best = told, rest
    fitted = x - best
    return bool(fitted[-1] < fitted.max() - rounding)


class Departures(NamedTuple):
    """The spans in which a difference departs from 0, the fitted values, and the noise. A span is a start and an end;
    the end may be the length of the series."""

    spans: list[tuple[int, int]]
    fitted: np.ndarray
    noise: Noise


@np.errstate(over="ignore", invalid="ignore")  # squares above 1e308 overflow and give no evidence
def departures(d: np.ndarray, least: int) -> Departures:
    """Find the places at which a difference departs from 0. A departure is a step or a ramp up to the end, or a
    stretch, with at least ``least`` values. A departure must explain the difference much better than noise with mean 0
    does."""
    tiny, rest = _rounding(d)[1], d
    spans: list[tuple[int, int]] = []
    while len(spans) < TERMS:
        found = []
        for begin, end, term, cost in _shapes(rest, least):
            height = float(term.dot(rest))
            found.append((_worth(rest, term if height > 0 else -term, tiny) - cost, begin, end, term * height))
        worth, begin, end, fitted = max(found, key=lambda one: one[0])
        if not worth > 0:
            break
        rest = rest - fitted
        spans.append((begin, end))
    return Departures(spans, d - rest, noise_left(rest, 1 + 2 * len(spans), float(np.abs(d).max())))


def _shapes(rest: np.ndarray, least: int) -> Iterator[tuple[int, int, np.ndarray, float]]:
    """Yield the step, the ramp and the stretch that explain the most of a difference from 0. Each shape has a start, an
    end, a term scaled to length 1, and a cost."""
    n, at = len(rest), np.arange(len(rest) + 1)
    sums = np.concatenate(([0.0], np.add.accumulate(rest)))
    left = n - at[:-1]
    begins = (at[:-1] == 0) | (at[:-1] >= least)
    after = sums[n] - sums[:-1]
    step = int(np.where(begins & (left >= least), after * after / left, -1.0).argmax())
    yield step, n, _unit(at[:-1] >= step), APART
    slopes = np.add.accumulate(after[::-1])[::-1]
    of_ramps = slopes * slopes / (left * (left + 1) * (2 * left + 1) / 6)
    ramp = int(np.where(left >= 2 * least, of_ramps, -1.0).argmax())
    yield ramp, n, _unit(np.maximum(at[:-1] - ramp + 1, 0)), APART
    size = at[None, :] - at[:, None]
    allowed = ((at == 0) | (at >= least))[:, None] & (size >= least) & (n - at >= least)[None, :]
    if allowed.any():
        between = sums[None, :] - sums[:, None]
        of_stretches = np.where(allowed, between * between / np.maximum(size, 1), -1.0)
        begin, end = divmod(int(of_stretches.argmax()), n + 1)
        yield begin, end, _unit((at[:-1] >= begin) & (at[:-1] < end)), APART_FOR_A_TIME


def _unit(term: np.ndarray) -> np.ndarray:
    """Return the term scaled to length 1."""
    return term / math.sqrt(float(np.count_nonzero(term) if term.dtype == bool else term.dot(term)))
