"""Cells that estimate the noise of a quantity and detect gains."""

from __future__ import annotations

import math
from functools import cache
from typing import Any, ClassVar

import numpy as np
from msgspec import Struct

from .cells import State
from .windows import added, mean

SPREAD = math.sqrt(math.pi) / 2
"""Ratio of the standard deviation of normal noise to the mean distance between neighbouring values."""
GAINED = 2.5
"""Number of standard errors above which a rise counts as a gain."""


class Noise(Struct, frozen=True):
    """Mean distance between neighbouring known values so far. State: the last value, the sum of distances and their
    number."""

    code: ClassVar[str] = (
        "if {0} == {0}: {state} = ({0}, {state}[1] + abs({0} - {state}[0]), {state}[2] + 1) "
        "if {state}[0] == {state}[0] else ({0}, 0.0, 0)"
    )
    value: ClassVar[str] = "{0}[1] / {0}[2] if {0}[2] else nan"

    def begin(self) -> State:
        return math.nan, 0.0, 0

    def block(self, state: State, xs: Any) -> tuple[State, Any]:
        xs = np.asarray(xs, float)
        known = ~np.isnan(xs)
        values = np.concatenate(([state[0]], xs[known]))
        steps = np.abs(np.diff(values))
        first = int(len(steps) > 0 and math.isnan(state[0]))
        apart = np.add.accumulate(np.concatenate(([state[1]], steps[first:])))
        pairs = state[2] + np.arange(len(apart))
        at = np.maximum(np.cumsum(known) - first, 0)
        out = apart[at] / np.where(pairs[at], pairs[at], math.nan)
        return (float(values[-1]), float(apart[-1]), int(pairs[-1])), out


@cache
def _spans(rows: int) -> tuple[tuple[int, float, float], ...]:
    """Return the lengths of the short and the long window, each followed by two factors that multiply the noise. The
    first factor applies to a window's mean minus a single value, and the second to the difference between two means."""
    return tuple((n, math.sqrt(1 + 1 / n), math.sqrt(2 / n)) for n in (rows, 4 * rows))


class Gained(Struct, frozen=True):
    """Whether a sparse, noisy quantity has gained.

    State: the last values, the first mean over windows of each length, the first value, and the sum and number of
    distances between neighbouring values.
    """

    rows: int
    code: ClassVar[str] = "if {0} == {0}: {state} = {push}({state}, {0})"
    value: ClassVar[str] = "{row}({0})"

    def begin(self) -> State:
        return (), (math.nan, math.nan), math.nan, 0.0, 0

    def push(self, state: State, x: Any) -> State:
        """Add a known value."""
        tail, starts, first, apart, pairs = state
        if tail:
            apart, pairs = apart + abs(x - tail[-1]), pairs + 1
        else:
            first = x
        if len(tail) == 4 * self.rows:
            return (*tail[1:], x), starts, first, apart, pairs
        tail, spans = (*tail, x), _spans(self.rows)
        starts = tuple(mean(tail) if len(tail) == span[0] else begun for span, begun in zip(spans, starts, strict=True))
        return tail, starts, first, apart, pairs

    def read(self, state: State) -> bool:
        """Return whether the quantity has gained at its last known value."""
        tail, starts, first, apart, pairs = state
        over = 0.0
        for begun, (window, of_one, of_mean) in zip(starts, _spans(self.rows), strict=True):
            if len(tail) >= window:
                level = mean(tail[-window:])
                over = max(over, (level - first) / of_one, (level - begun) / of_mean)
        return over > GAINED * (SPREAD * apart / pairs if pairs else math.nan)

    def block(self, state: State, xs: Any) -> tuple[State, Any]:
        tail, starts, first, apart, pairs = state
        before = self.read(state)
        xs = np.asarray(xs, float)
        known = np.flatnonzero(~np.isnan(xs))
        if not len(known):
            return state, np.full(len(xs), before)
        values = np.concatenate((tail, xs[known])).astype(float)
        old = len(tail)
        first = first if old else values[0]
        steps = np.abs(np.diff(values, prepend=values[0]))[old:]
        aparts = np.add.accumulate(np.concatenate(([apart], steps)))[1:]
        counts = pairs + np.arange(1, len(known) + 1) - (not old)
        scatter = SPREAD * aparts / np.where(counts, counts, math.nan)
        over, begun = np.zeros(len(known)), list(starts)
        for i, (window, of_one, of_mean) in enumerate(_spans(self.rows)):
            level = np.full(len(values), math.nan)
            if len(values) >= window:
                shifted = [values[k : len(values) - window + 1 + k] for k in range(window)]
                level[window - 1 :] = added(shifted) / window
            level = level[old:]
            means = level[~np.isnan(level)]
            if begun[i] != begun[i] and len(means):
                begun[i] = means[0]
            over = np.fmax(np.fmax(over, (level - first) / of_one), (level - begun[i]) / of_mean)
        gained = over > GAINED * scatter
        gained[: max(0, self.rows - 1 - old)] = before  # with fewer values than a window, the result is unknown
        tail = tuple(values[-4 * self.rows :].tolist())
        state = tail, tuple(begun), float(first), float(aparts[-1]), int(counts[-1])
        return state, np.concatenate(([before], gained))[np.searchsorted(known, np.arange(len(xs)), side="right")]
