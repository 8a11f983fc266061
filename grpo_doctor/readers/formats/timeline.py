"""Assigns the lines of a log to steps: lines that name a step, and lines above, below or between them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ..steps import excursions
from .repeated_lines import Shape, backs, counts_up

_ASTRAY = 0.2
"""Maximum share of the rows of a shape whose step is lower than that of the row above."""
_FEWEST_COUNTS, _AT_THEIR_PACE = 3, 0.8
"""Minimum number of printed counts that the lines are compared with, and minimum share of these counts that match the
number of lines (within 1)."""
_OFTEN_ABOVE = 0.05
"""Minimum share of the steps with lines above the line that names the step."""


class Timeline:
    """Places of a log and the step that begins at each."""

    def __init__(self, places: np.ndarray, steps: np.ndarray, epochs: np.ndarray | None = None) -> None:
        self.places, self.steps, self.epochs = places, steps, epochs
        self.begins = int(places[0])
        """First possible position of its rows, if a program was restarted in between."""

    @classmethod
    def of(cls, shape: Shape) -> Timeline:
        return cls(np.array(shape.order), shape.table()[:, shape.counter or 0])

    def joined(self, shape: Shape, weak: bool) -> Timeline:
        """Return this timeline with the rows of another shape in between, if one of its columns counts along with the
        rows around them.

        Otherwise, that shape has a different counter than the main lines, such as updates that a progress bar does not
        count.
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
        """Return the steps of lines that do not name one, if two counts differ by the number of lines between them."""
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
        begins = np.flatnonzero(np.diff(steps, prepend=math.inf) < 0)  # of the runs
        first = begins[np.searchsorted(begins, np.arange(len(marks)), side="right") - 1]
        counted = steps[first] + ends - ends[first]
        if np.diff(steps).max() < 2 or np.mean(np.abs(counted - steps) <= 1) < _AT_THEIR_PACE:
            return None
        of_run = first[np.minimum(np.searchsorted(marks, places), len(marks) - 1)]
        own = steps[of_run] - ends[of_run] + 1 + np.arange(len(places))
        return Timeline(places, own)

    def at(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the index of the step of each line of a shape, and the place of that count.

        The step is the next one if the lines precede the line that names it. Otherwise it is the last one that began.
        Lines before the first count keep their place: an earlier run may have printed them.
        """
        last = np.searchsorted(self.places, places, side="right") - 1
        after = np.minimum(np.searchsorted(self.places, places), len(self.places) - 1)
        above = np.count_nonzero(last < 0) > np.count_nonzero(last == len(self.places) - 1)
        steps = np.count_nonzero(np.diff(after, prepend=-1))
        if above and 1 < steps > _OFTEN_ABOVE * np.count_nonzero(np.diff(self.steps, prepend=math.nan)):
            return after, self.places[after]
        at = np.maximum(last, 0)
        return at, np.where(last < 0, places, self.places[at])
