"""Cells over the last rows: sums, means, ranks, slopes and trends of a window."""

from __future__ import annotations

import math
import operator
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, reduce
from itertools import combinations
from typing import Any, ClassVar

import numpy as np

from .cells import Cell, State


def added(values: Sequence[Any]) -> Any:
    """Sum numbers or columns in order, so that the last digit is the same for rows and blocks."""
    return _unrolled("{}", len(values))(values)


def mean(values: Sequence[Any]) -> Any:
    return added(values) / len(values)


@cache
def _unrolled(result: str, number: int, *factors: float) -> Callable[[Sequence[Any]], Any]:
    """Return a function that adds weighted values without a loop, because a loop would take as long as the sum; its
    result is computed from the total."""
    names: dict[str, Any] = {}
    values = [f"x{k}" for k in range(number)]
    terms = [f"{factor!r} * {x}" for factor, x in zip(factors, values, strict=True)] if factors else values
    lines = ["def add(values):", f"{', '.join(values)}, = values", "total = 0.0", *(f"total += {x}" for x in terms)]
    exec("\n    ".join([*lines, f"return {result.format('total')}"]), names)
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


def _deviation_of(ordered: Sequence[float]) -> Any:
    middle = _middle(ordered)
    return _middle(sorted([abs(value - middle) for value in ordered]))


def _last(ordered: Sequence[float]) -> float:
    return ordered[-1]


def _first(ordered: Sequence[float]) -> float:
    return ordered[0]


_BY_SIZE: dict[Callable[..., Any], Callable[[Sequence[float]], Any]] = {
    largest: _last,
    smallest: _first,
    median: _middle,
    deviation: _deviation_of,
}
"""The same reductions for the sorted numbers of one window."""


def _windows(rows: int, tail: Sequence[float], xs: Any) -> tuple[Sequence[float], list[Any]]:
    """Return the tail after these rows, and the full windows as shifted columns, oldest value first."""
    known = tail[-(rows - 1) :] if rows > 1 else ()
    padded = np.concatenate((known, np.asarray(xs, float)))
    full = max(0, len(padded) - rows + 1)
    return tuple(padded[-rows:].tolist()), [padded[k : k + full] for k in range(rows)]


@dataclass(frozen=True)
class Window:
    """A reduction of the last ``rows`` values, NaN until there are that many. State: those values.

    Attributes:
        rows: length of the window.
        reduce: reduction of the window's values, oldest first, each a number or a shifted column.
    """

    rows: int
    reduce: Callable[[Sequence[Any]], Any]

    def begin(self) -> State:
        return ()

    def push(self, state: State, x: Any) -> tuple[State, Any]:
        state = (state + (x,))[-self.rows :]  # noqa: RUF005 - twice as fast as unpacking
        return state, self.of_row(state) if len(state) == self.rows else math.nan

    @cached_property
    def of_row(self) -> Callable[[Sequence[Any]], Any]:
        """Reduce the numbers of one window without a separate call for the final step."""
        if self.reduce is mean:
            return _unrolled(f"{{}} / {self.rows}", self.rows)
        return _unrolled("{}", self.rows) if self.reduce is added else self.reduce

    def block(self, state: State, xs: Any) -> tuple[State, Any]:
        state, shifted = _windows(self.rows, state, xs)
        out = np.full(len(xs), math.nan)
        if len(shifted[0]):
            out[-len(shifted[0]) :] = self.reduce(shifted)
        return state, out


@dataclass(frozen=True)
class Ranked:
    """A window that also keeps its known values sorted: a row needs a search instead of a sort.

    State: the values in order, and the known ones sorted.
    """

    rows: int
    reduce: Callable[[Sequence[Any]], Any]

    def begin(self) -> State:
        return (), []

    def push(self, state: State, x: Any) -> tuple[State, Any]:
        tail, ordered = slide(state[0], state[1], self.rows, x)
        return (tail, ordered), _BY_SIZE[self.reduce](ordered) if len(ordered) == self.rows else math.nan

    def block(self, state: State, xs: Any) -> tuple[State, Any]:
        tail, out = Window(self.rows, self.reduce).block(state[0], xs)
        return (tail, sorted(x for x in tail if x == x)), out


def slide(tail: Any, ordered: list[float], rows: int, x: float) -> tuple[Any, list[float]]:
    """Move the window by one row, in time order and in sorted order."""
    ordered = ordered.copy()
    if len(tail) == rows:
        if (old := tail[0]) == old:
            del ordered[bisect_left(ordered, old)]
        tail = tail[1:]
    if x == x:
        insort(ordered, x)
    return (*tail, x), ordered


@dataclass(frozen=True)
class Slope:
    """Reduction of a window: least-squares change per row of its ``rows`` values."""

    rows: int

    def __call__(self, values: Sequence[Any]) -> Any:
        return self._function(values)

    @cached_property
    def _function(self) -> Callable[[Sequence[Any]], Any]:
        places = [k - (self.rows - 1) / 2 for k in range(self.rows)]
        return _unrolled(f"{{}} / {sum(place**2 for place in places)}", self.rows, *places)


@dataclass(frozen=True)
class Tau:
    """Kendall's tau-a against time of the last ``rows`` values; NaN until there are that many.

    Row by row, it counts only added and removed pairs. These are whole numbers, so rounding errors do not accumulate.
    State: the values in order, the known ones sorted, and the rising minus the falling pairs.
    """

    rows: int

    def begin(self) -> State:
        return (), [], 0

    def push(self, state: State, x: Any) -> tuple[State, Any]:
        tail, ordered, score = state
        if len(tail) == self.rows:
            score -= _above(ordered, tail[0])
        tail, ordered = slide(tail, ordered, self.rows, x)
        score -= _above(ordered, x)
        return (tail, ordered, score), score / self._pairs if len(ordered) == self.rows else math.nan

    def block(self, state: State, xs: Any) -> tuple[State, Any]:
        tail, out = Window(self.rows, self._reduce).block(state[0], xs)
        score = sum((late > early) - (late < early) for early, late in combinations(tail, 2))
        return (tail, sorted(x for x in tail if x == x), score), out

    @property
    def _pairs(self) -> float:
        return self.rows * (self.rows - 1) / 2

    def _reduce(self, values: Sequence[Any]) -> Any:
        pairs = combinations(values, 2)
        signs = (np.where(late == early, 0.0, np.sign(late - early)) for early, late in pairs)
        return reduce(operator.add, signs, 0.0) / self._pairs  # one by one, because there are many


def _above(ordered: list[float], x: float) -> int:
    """Return how many values of a window are larger than this one minus how many are smaller; 0 for NaN."""
    return len(ordered) - bisect_right(ordered, x) - bisect_left(ordered, x)


@dataclass(frozen=True)
class OnKnown:
    """Applies another cell to the known values only; on unknown values it keeps its last value. State: its own, and
    that value."""

    inner: Cell

    code: ClassVar[str] = "if {0} == {0}: {state} = {row}({state}[0], {0})\n{value} = {state}[1]"

    def begin(self) -> State:
        return self.inner.begin(), math.nan

    @property
    def push(self) -> Callable[[State, Any], tuple[State, Any]]:
        """Push a known value; return the new state."""
        return self.inner.push

    def block(self, state: State, xs: Any) -> tuple[State, Any]:
        inner, value = state
        known = np.flatnonzero(~np.isnan(np.asarray(xs, float)))
        if not len(known):
            return state, np.full(len(xs), value)
        inner, values = self.inner.block(inner, xs[known])
        last = np.searchsorted(known, np.arange(len(xs)), side="right")
        return (inner, values[-1]), np.concatenate(([value], values))[last]
