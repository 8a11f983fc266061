"""Cells over the last rows: sums, means, ranks and slopes of a window."""

from __future__ import annotations

import math
import operator
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Sequence
from functools import cache, cached_property, reduce
from itertools import combinations
from typing import Any

import numpy as np
from msgspec import Struct

from .cells import State


def added(values: Sequence[Any]) -> Any:
    """Sum numbers or columns in order, so that row-by-row and block results agree to the last digit."""
    return _unrolled("{}", len(values))(values)


def mean(values: Sequence[Any]) -> Any:
    return added(values) / len(values)


@cache
def _unrolled(result: str, number: int, *factors: float) -> Callable[[Sequence[Any]], Any]:
    """Return a function that adds weighted values without a loop, because a loop would double the computing time. The
    function computes ``result`` from the total, or returns NaN if there are fewer than ``number`` values."""
    names: dict[str, Any] = {"nan": math.nan}
    values = [f"x{k}" for k in range(number)]
    terms = [f"{factor!r} * {x}" for factor, x in zip(factors, values, strict=True)] if factors else values
    lines = [f"if len(values) < {number}: return nan", f"{', '.join(values)}, = values", f"total = 0.0 + {terms[0]}"]
    lines += [f"total += {x}" for x in terms[1:]]
    exec("\n    ".join(["def add(values):", *lines, f"return {result.format('total')}"]), names)
    function: Callable[[Sequence[Any]], Any] = names["add"]
    return function


def largest(values: Sequence[Any]) -> Any:
    return np.maximum.reduce(list(values))


def smallest(values: Sequence[Any]) -> Any:
    return np.minimum.reduce(list(values))


def median(values: Sequence[Any]) -> Any:
    ordered = np.sort(np.array(list(values), float), axis=0)
    return np.where(np.isnan(ordered[-1]), math.nan, _middle(ordered))


def _middle(ordered: Any) -> Any:
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def deviation(values: Sequence[Any]) -> Any:
    """Return the median absolute deviation from the median."""
    middle = median(values)
    return median([np.abs(value - middle) for value in values])


def tau(values: Sequence[Any]) -> Any:
    """Return Kendall's tau-a against time: -1 means a fall throughout, 1 a rise throughout."""
    pairs = combinations(values, 2)
    signs = (np.where(late == early, 0.0, np.sign(late - early)) for early, late in pairs)
    return reduce(operator.add, signs, 0.0) / math.comb(len(values), 2)  # one at a time, because there are many pairs


def _median_of(known: Sequence[float]) -> Any:
    return _middle(sorted(known))


def _deviation_of(known: Sequence[float]) -> Any:
    middle = _median_of(known)
    return _median_of([abs(value - middle) for value in known]) if math.isfinite(middle) else math.nan


def _tau_of(known: Sequence[float]) -> float:
    ordered: list[float] = []
    rising = 0
    for x in known:
        rising += bisect_left(ordered, x) + bisect_right(ordered, x) - len(ordered)
        insort(ordered, x)
    return rising / math.comb(len(known), 2)


SHORT = 10
"""Maximum length of a window whose sum a plan computes without a function call."""
_OF_NUMBERS: dict[Callable[..., Any], Callable[[Sequence[float]], Any]] = {
    largest: max,
    smallest: min,
    median: _median_of,
    deviation: _deviation_of,
    tau: _tau_of,
}
"""The functions that reduce the known numbers of one window to one value."""


def _of_known(reduce: Callable[[Sequence[float]], Any], rows: int) -> Callable[[Sequence[float]], Any]:
    """Return a function that reduces a window of ``rows`` values, or returns NaN if a value is missing or NaN."""

    def read(values: Sequence[float]) -> Any:
        total = sum(values)  # NaN if a value is NaN, or if infinite values cancel each other
        known = len(values) == rows and (total == total or all(x == x for x in values))
        return reduce(values) if known else math.nan

    return read


class Slope(Struct, frozen=True, dict=True):
    """Reduction of a window of ``rows`` values to their least-squares change per row."""

    rows: int

    def __call__(self, values: Sequence[Any]) -> Any:
        return self._function(values)

    @cached_property
    def _function(self) -> Callable[[Sequence[Any]], Any]:
        places = [k - (self.rows - 1) / 2 for k in range(self.rows)]
        return _unrolled(f"{{}} / {sum(place**2 for place in places)}", self.rows, *places)


class Window(Struct, frozen=True, dict=True):
    """A reduction of the last ``rows`` values; NaN until there are ``rows`` values. State: the last values.

    Attributes:
        rows: length of the window.
        reduce: reduction of the window's values, oldest first. Each value is a number or a shifted column.
    """

    rows: int
    reduce: Callable[[Sequence[Any]], Any]

    @property
    def code(self) -> str:
        return f"{{state}} = ({{state}} + ({{0}},))[-{self.rows}:]"  # twice as fast as unpacking

    @property
    def value(self) -> str:
        if self.reduce not in (added, mean) or self.rows > SHORT:
            return "{row}({0})"
        total = " + ".join(["0.0", *(f"{{0}}[{k}]" for k in range(self.rows))])
        return f"({total}) / {self.rows if self.reduce is mean else 1} if len({{0}}) == {self.rows} else nan"

    def begin(self) -> State:
        return ()

    @cached_property
    def read(self) -> Callable[[Sequence[Any]], Any]:
        """Reduce the numbers of one window; NaN while the window is not full."""
        if self.reduce in _OF_NUMBERS:
            return _of_known(_OF_NUMBERS[self.reduce], self.rows)
        if self.reduce is mean:
            return _unrolled(f"{{}} / {self.rows}", self.rows)
        return _unrolled("{}", self.rows) if self.reduce is added else self.reduce

    def block(self, state: State, xs: Any) -> tuple[State, Any]:
        known = state[-(self.rows - 1) :] if self.rows > 1 else ()
        padded = np.concatenate((known, np.asarray(xs, float)))
        full = len(padded) - self.rows + 1
        out = np.full(len(xs), math.nan)
        if full > 0:
            out[-full:] = self.reduce([padded[k : k + full] for k in range(self.rows)])
        return tuple(padded[-self.rows :].tolist()), out


class OnKnown(Struct, frozen=True):
    """Applies a window to the known values only. On a row without a value, the last result is repeated. State: the
    state of the window."""

    inner: Window

    @property
    def value(self) -> str:
        return self.inner.value

    @property
    def code(self) -> str:
        return f"if {{0}} == {{0}}: {self.inner.code}"

    @property
    def read(self) -> Callable[[Sequence[Any]], Any]:
        return self.inner.read

    def begin(self) -> State:
        return self.inner.begin()

    def block(self, state: State, xs: Any) -> tuple[State, Any]:
        known = np.flatnonzero(~np.isnan(np.asarray(xs, float)))
        value = self.read(state)
        if not len(known):
            return state, np.full(len(xs), value)
        state, values = self.inner.block(state, xs[known])
        last = np.searchsorted(known, np.arange(len(xs)), side="right")
        return state, np.concatenate(([value], values))[last]
