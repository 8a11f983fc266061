"""Estimates the noise of a series after fitting a level, a slope and steps, and the standard error of means of the
series.

The residuals of an ordinary least-squares fit of a level, a slope and some steps count as noise. The variance of the
innovations is used as the variance of the noise, because the steps absorb slow changes. The lag-1 autocorrelation is
corrected for the bias -f/n of f fitted terms in n bins of white noise (Marriott and Pope, Biometrika 1954). The
variance and the autocorrelation give the standard error of a mean of k bins under an AR(1) model. The squared standard
error is the long-run variance divided by k, and at most the variance of one bin. The remaining bias for autocorrelated
noise is not corrected, because there are too few bins. If a row is the mean of many steps, its noise is measured
without this correction.
"""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

FREE, MOST = (0, 16, 36), 5
"""`FREE`: minimum numbers of bins at which one, two and three steps are always fitted. `MOST`: maximum number of steps.
Three steps are needed because a run may rise, dip and recover."""
DECISIVE = 0.5
"""Maximum share of the sum of squares that may remain after an additional step. With a larger maximum, autocorrelated
noise would count as steps."""
CAP = 0.92
"""The largest accepted autocorrelation."""
LENGTHS = 256
"""Number of cached series lengths."""


def median(values: Sequence[float] | np.ndarray) -> float:
    """Return the median. Unlike `numpy.median`, the function does not import `numpy.ma`, whose import takes a third as
    long as the import of numpy."""
    ordered = np.sort(np.asarray(values, float))
    if not len(ordered) or math.isnan(ordered[-1]):
        return math.nan
    return float(ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def mean(x: np.ndarray) -> Any:
    """Return the mean. The array method would take five times as long, and a run is judged at every row."""
    return np.add.reduce(x) / len(x)


def squares(x: np.ndarray, mean: Any) -> float:
    """Return the sum of squares about the mean."""
    off = x - mean
    return float(off.dot(off))


@lru_cache(maxsize=LENGTHS)
def _weights(n: int) -> np.ndarray:
    """Return 1 divided by the product of the sizes of both parts, for every split of ``n`` values into parts of at
    least two values."""
    at = np.arange(2, n - 1)
    return 1 / (at * (n - at))


@lru_cache(maxsize=LENGTHS)
def _line(n: int) -> np.ndarray:
    """Return a slope of length 1 with mean 0."""
    line = np.arange(n) - (n - 1) / 2
    return line / math.sqrt(line @ line)


def _step(n: int, at: int) -> np.ndarray:
    """Return a step of height 1 with mean 0."""
    step = np.empty(n)
    step[:at], step[at:] = (at - n) / n, at / n
    return step


def split(x: np.ndarray) -> int:
    """Return the position at which the second part begins in the least-squares split into two parts, each with its own
    mean."""
    return _split(x - mean(x)) if len(x) > 3 else len(x) // 2


def _split(x: np.ndarray) -> int:
    """Return the same position as `split`, for at least four values with mean 0."""
    sums = np.add.accumulate(x)[1:-2]
    sums *= sums
    sums *= _weights(len(x))
    return 2 + int(sums.argmax())


@lru_cache(maxsize=2 * LENGTHS)
def critical(z: float, degrees: int) -> float:
    """Return the quantile of Student's t at the probability of the normal quantile ``z``, because few values give an
    uncertain standard error. The quantile is computed with Cornish and Fisher's expansion (all terms of Abramowitz and
    Stegun 26.7.5)."""
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return math.fsum(term / degrees**power for power, term in enumerate(terms))


class Noise(NamedTuple):
    """Noise of bins: variance of the innovations, lag-1 autocorrelation, degrees of freedom, and the error that
    rounding may cause."""

    innovation: float
    along: float
    degrees: int
    least: float

    def error(self, k: int) -> float:
        """Return the standard error of the mean of ``k`` consecutive bins."""
        of_mean, of_bin = 1 / ((1 - self.along) ** 2 * k), 1 / (1 - self.along**2)
        error = math.sqrt(self.innovation * (of_bin if of_bin < of_mean else of_mean))
        return self.least if self.least > error else error  # `min` and `max` take twice as long


@np.errstate(over="ignore", invalid="ignore")  # squares above 1e308 overflow, so the noise is unknown
def noise_of(x: np.ndarray) -> Noise:
    """Return the noise that remains after fitting a level, a slope and some steps. Rounding errors are assumed to be
    1e-9 times the largest absolute value."""
    return noise_left(*_unexplained(x), float(np.abs(x).max()))


def noise_left(rest: np.ndarray, fitted: int, largest: float) -> Noise:
    """Return the noise of residuals after fitting a number of terms. Rounding errors are assumed to be 1e-9 times
    ``largest``, the largest absolute value."""
    n, square = len(rest), float(rest.dot(rest))
    degrees = max(n - fitted, 1)
    along = float(rest[1:].dot(rest[:-1])) / square if square > 0 else 0.0
    along = min(max(along + fitted / n, 0.0), CAP)
    return Noise(square / degrees, along, degrees, 1e-9 * largest + 1e-300)


def _unexplained(x: np.ndarray) -> tuple[np.ndarray, int]:
    """Return the residuals after fitting a level, a slope and steps, and the number of fitted terms. Each step is
    fitted at the position at which it explains the most."""
    n = len(x)
    basis, terms = np.empty((MOST + 1, n)), 1
    line = basis[0] = _line(n)
    level = x - mean(x)
    rest = level - line * line.dot(level)
    square, free = float(rest.dot(rest)), bisect(FREE, n)
    for number in range(MOST):
        at = _split(rest if number else level)
        step = _step(n, at)
        known = basis[:terms]
        along = known.dot(step)
        size = at * (n - at) / n - float(along.dot(along))  # squared length of the step's residual
        shared = float(step.dot(rest))
        gain = shared * shared / size if size > 1e-12 else 0.0  # if the size is 0, the step has already been fitted
        if number >= free and not square - gain <= DECISIVE * square:  # both values may be infinite
            return rest, 2 + 2 * number  # each step counts as two terms, because its position is also fitted
        if size > 1e-12:
            step = basis[terms] = (step - along.dot(known)) / math.sqrt(size)
            rest = rest - step * step.dot(rest)
            square = float(rest.dot(rest))
            terms += 1
    return rest, 2 + 2 * MOST
