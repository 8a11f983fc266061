"""Assigns the lines of a log to steps: lines that contain their step, and lines above, below or between such lines."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ..steps import excursions
from .repeated_lines import Shape, backs, counts_up

_ASTRAY = 0.2
"""Maximum share of the rows of a shape that may have a lower step than the row above."""
_FEWEST_COUNTS, _AT_THEIR_PACE = 3, 0.8
"""`_FEWEST_COUNTS`: minimum number of printed counts that are compared with the number of lines. `_AT_THEIR_PACE`:
minimum share of printed counts that must match the number of lines (within 1)."""
_OFTEN_ABOVE = 0.05
"""Share of the steps that directly follow lines of a shape, above which these lines belong to the step after them."""


class Timeline:
    """Places in a log, and the step that begins at each place."""

    def __init__(self, places: np.ndarray, steps: np.ndarray, epochs: np.ndarray | None = None) -> None:
        self.places, self.steps, self.epochs = places, steps, epochs
        self.begins = int(places[0])
        """Place at which the rows of the run may begin, which is before the first step if a program was restarted."""

    @classmethod
    def of(cls, shape: Shape) -> Timeline:
        return cls(np.array(shape.order), shape.table()[:, shape.counter or 0])

    def joined(self, shape: Shape, weak: bool) -> Timeline:
        """Return this timeline combined with the rows of another shape, if a column of that shape advances with the
        surrounding rows.

        If no column advances with the surrounding rows, the shape has a different counter, and the timeline stays the
        same. For example, a progress bar may not count updates.
        """
        for column in shape.counters():
            shape.counter = column
            merged = self._with(shape)
            astray = backs(merged.steps) - backs(self.steps)
            if counts_up(merged.steps) and shape.weak() <= weak and astray <= _ASTRAY * len(shape.lines):
                return merged
        shape.averaged = shape.counter is not None and shape.weak()
        shape.counter = None
        return self

    def _with(self, shape: Shape) -> Timeline:
        other = Timeline.of(shape)
        places = np.concatenate((self.places, other.places))
        order = np.argsort(places, kind="stable")
        return Timeline(places[order], np.concatenate((self.steps, other.steps))[order])

    def without_excursions(self, epochs: Callable[[np.ndarray], np.ndarray | None] | None) -> Timeline:
        keep = ~excursions(self.steps)
        places = self.places[keep]
        return Timeline(places, self.steps[keep], epochs(places) if epochs else None)

    def refined(self, shape: Shape) -> Timeline | None:
        """Return a finer timeline of lines without a step, if printed counts differ by the number of lines between
        them; otherwise None."""
        marks = self.places[np.diff(self.steps, prepend=math.nan) != 0]
        steps = self.steps[np.diff(self.steps, prepend=math.nan) != 0]
        places = np.array(shape.order)
        if (
            shape.counter is not None
            or not shape.updates()
            or len(marks) < _FEWEST_COUNTS
            or len(places) < 2 * len(marks)
        ):
            return None
        ends = np.searchsorted(places, marks)
        begins = np.flatnonzero(np.diff(steps, prepend=math.inf) < 0)  # the first row of each run
        first = begins[np.searchsorted(begins, np.arange(len(marks)), side="right") - 1]
        counted = steps[first] + ends - ends[first]
        if np.diff(steps).max() < 2 or np.mean(np.abs(counted - steps) <= 1) < _AT_THEIR_PACE:
            return None
        of_run = first[np.minimum(np.searchsorted(marks, places), len(marks) - 1)]
        own = steps[of_run] - ends[of_run] + 1 + np.arange(len(places))
        return Timeline(places, own)

    def at(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return, for each line of a shape, the index of its step, and the place at which the step is counted.

        If the lines precede the line with the step, the next step is used. If the lines follow the line with the step,
        the last step that began is used. Lines before the first count keep their place, because an earlier run may have
        printed them.
        """
        last = np.searchsorted(self.places, places, side="right") - 1
        after = np.minimum(np.searchsorted(self.places, places), len(self.places) - 1)
        above = np.count_nonzero(last < 0) > np.count_nonzero(last == len(self.places) - 1)
        steps = np.count_nonzero(np.diff(after, prepend=-1))
        if above and 1 < steps > _OFTEN_ABOVE * np.count_nonzero(np.diff(self.steps, prepend=math.nan)):
            return after, self.places[after]
        at = np.maximum(last, 0)
        return at, np.where(last < 0, places, self.places[at])
