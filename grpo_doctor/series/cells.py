"""Cells: the state of columns that depend on earlier rows, with one class for each kind of state.

A cell itself has no state. It creates the first state, and computes the next state and a value from a state and a row.
A block of rows gives the same results as its rows one by one. A state is never changed in place, so a stored state is a
snapshot. Cells with equal parameters are equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np
from msgspec import Struct

from .expression import numpys
from .noise_model import median

State: TypeAlias = Any


class Cell(Protocol):
    """Base class of cells.

    Attributes:
        code: a Python statement that computes {state} from the last {state} and the row, {0}. {push} is the cell's
            ``push`` method.
        value: a Python expression that computes the value from the new state, {0}, and the row, {1}. {row} is the
            cell's ``read`` method. The value is computed only on rows that need it. ``value`` is empty if ``code`` also
            sets {value}.
    """

    def begin(self) -> State:
        """Return the state before the first row."""

    def block(self, state: State, *columns: Any) -> tuple[State, Any]:
        """Return the state after a block of rows, and the value on each row."""


# -- cells that remember one value -------------------------------------------------------------------------------


class Best(Struct, frozen=True):
    """Largest value so far, ignoring NaN."""

    code: ClassVar[str] = "if {0} == {0} and not {state} >= {0}: {state} = float({0})"
    value: ClassVar[str] = "{0}"

    def begin(self) -> State:
        return math.nan

    def block(self, state: State, xs: Any) -> tuple[State, Any]:
        out = np.fmax.accumulate(np.concatenate(([state], np.asarray(xs, float))))[1:]
        return out[-1], out


class Total(Struct, frozen=True):
    """Sum so far, ignoring NaN."""

    code: ClassVar[str] = "if {0} and {0} == {0}: {state} += {0}"
    value: ClassVar[str] = "{0}"

    def begin(self) -> State:
        return 0.0

    def block(self, state: State, xs: Any) -> tuple[State, Any]:
        known = np.where(np.isnan(np.asarray(xs, float)), 0.0, xs)
        out = np.add.accumulate(np.concatenate(([state], known)))[1:]
        return out[-1], out


class Latest(Struct, frozen=True):
    """The last known value."""

    code: ClassVar[str] = "if {0} == {0}: {state} = {0}"
    value: ClassVar[str] = "{0}"

    def begin(self) -> State:
        return math.nan

    def block(self, state: State, xs: Any) -> tuple[State, Any]:
        padded = np.concatenate(([state], xs))
        known = np.where(np.isnan(padded), 0, np.arange(len(padded)))
        out = padded[np.maximum.accumulate(known)][1:]
        return out[-1], out


class First(Struct, frozen=True):
    """The first known value."""

    code: ClassVar[str] = "if {state} != {state}: {state} = float({0})"
    value: ClassVar[str] = "{0}"

    def begin(self) -> State:
        return math.nan

    def block(self, state: State, xs: Any) -> tuple[State, Any]:
        known = xs[~np.isnan(np.asarray(xs, float))][:1]
        if state == state or not len(known):
            return state, np.full(len(xs), state)
        out = np.full(len(xs), float(known[0]))
        out[: int(np.argmax(xs == xs))] = math.nan
        return float(known[0]), out


class Baseline(Struct, frozen=True):
    """Median of the first ``rows`` known values; NaN until there are ``rows`` known values. State: the known values,
    and the median."""

    rows: int
    value: ClassVar[str] = "{0}[1]"

    @property
    def code(self) -> str:
        return f"if len({{state}}[0]) < {self.rows} and {{0}} == {{0}}: {{state}} = {{push}}({{state}}, {{0}})"

    def begin(self) -> State:
        return (), math.nan

    def push(self, state: State, x: Any) -> State:
        """Add a known value."""
        first = (*state[0], float(x))
        return first, median(first) if len(first) == self.rows else math.nan

    def block(self, state: State, xs: Any) -> tuple[State, Any]:
        out = np.full(len(xs), state[1])
        for i in np.flatnonzero(~np.isnan(np.asarray(xs, float)))[: self.rows - len(state[0])]:
            state = self.push(state, xs[i])
            out[i:] = state[1]
        return state, out


class Last(Struct, frozen=True):
    """The value on the previous row."""

    code: ClassVar[str] = "{value}, {state} = {state}, {0}"
    value: ClassVar[str] = ""

    def begin(self) -> State:
        return math.nan

    def block(self, state: State, xs: Any) -> tuple[State, Any]:
        padded = np.concatenate(([state], xs)).astype(float)
        return padded[-1], padded[:-1]


class Previous(Struct, frozen=True):
    """The value ``rows`` rows ago; NaN on the first ``rows`` rows. State: the last ``rows + 1`` values."""

    rows: int
    code: ClassVar[str] = "{state} = {state}[1:] + ({0},)"
    value: ClassVar[str] = "{0}[0]"

    def begin(self) -> State:
        return (math.nan,) * (self.rows + 1)

    def block(self, state: State, xs: Any) -> tuple[State, Any]:
        padded = np.concatenate((state[1:], xs)).astype(float)
        return tuple(padded[-self.rows - 1 :]), padded[: len(xs)]


# -- other kinds of state, row by row -------------------------------------------------------------------------


class Began(Struct, frozen=True):
    """Onset of an episode with pauses. A pause belongs to the episode if it is at most as long as the episode so far or
    lasts at most 10 rows.

    State: the first and the last row of the episode, whether the quantity was off its first level on the last row, the
    step at which it left that level, and the onset.
    """

    code: ClassVar[str] = "if {0} or {1} != {state}[2]: {state} = {push}({state}, {0}, {1}, {2}, {3})"
    value: ClassVar[str] = "{0}[-1] if {1} else nan"

    def begin(self) -> State:
        return 1, -math.inf, False, math.nan, math.nan

    def push(self, state: State, when: Any, off: Any, step: Any, at: Any) -> State:
        first, last, was_off, start, onset = state
        start = (start if was_off else step) if off else math.nan
        if when:
            if at - last > max(10, last - first + 1):
                first, onset = at, start
            last = at
        return first, last, bool(off), start, onset

    def block(self, state: State, when: Any, off: Any, steps: Any, at: Any) -> tuple[State, Any]:
        if np.any(when):
            out = np.empty(len(steps))
            for i, row in enumerate(zip(when, off, steps, at, strict=True)):
                state = self.push(state, *row)
                out[i] = state[-1] if row[0] else math.nan
            return state, out
        first, last, was_off, start, onset = state  # usual case: only the rows off the first level matter
        back = np.flatnonzero(~np.asarray(off, bool))
        streak = back[-1] + 1 if len(back) else 0
        if streak < len(steps):
            start = start if was_off and not streak else float(steps[streak])
        return (first, last, streak < len(steps), start, onset), np.full(len(steps), math.nan)


class Fold(Struct, frozen=True):
    """A fold: calls ``function(state, *row) -> (state, value)`` on each row, starting with the state from ``start``.

    If the state has a ``copy`` method, the function receives a copy and may change it in place. State: the state of the
    function, and the last value.
    """

    function: Callable[..., tuple[Any, float]]
    start: Callable[[], Any]
    code: ClassVar[str] = "{state} = {push}({state}[0], {given})"
    value: ClassVar[str] = "float({0}[1])"

    def begin(self) -> State:
        return self.start(), math.nan

    def push(self, state: State, *row: Any) -> State:
        """Apply the function to a row."""
        copy = getattr(state, "copy", None)
        return self.function(copy() if copy else state, *map(numpys, row))

    def block(self, state: State, *columns: Any) -> tuple[State, Any]:
        last = state[0].copy() if hasattr(state[0], "copy") else state[0]
        out = np.empty(len(columns[0]))
        for i, values in enumerate(zip(*columns, strict=True)):
            last, out[i] = self.function(last, *values)
        return (last, out[-1]), out
