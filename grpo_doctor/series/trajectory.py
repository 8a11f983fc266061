"""The trajectory of a success series: learned, solved, fell, always at its minimum, flat, or unknown.

A `Trajectory` takes the values of one series (reward, success rate, held-out score, or a loss turned round) row by row
or block by block, with the same result, in bounded memory: means over bins of equal width, at most `BINS` of them,
whose width doubles as the run grows. Each time a bin is full the run so far can be judged, so that a live run and a
whole log say the same at the same row. How a series then stands tells `series.trend`, what is noise
`series.noise_model`, what is a change of level `series.changepoint`.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from .trend import WINDOW, Outcome, Standing, at_floor

BINS = 128
"""Bins that are kept: a change is dated to 1/64 of the run at worst."""
LONGEST = 60
"""Characters of a component's name that are shown."""
MEANT, VALID = "reward_meant", "valid_rate"
"""What the reward pays for what was meant, apart from form, and the share of valid responses: they are judged like
success, for checks ask whether a gain is more than manners or comes at their cost, but are none."""
FOLLOWED = {"reward": "reward_mean", "success": "success_rate", "eval": "eval_score", "meant": MEANT, "valid": VALID}
"""Series that are judged at every row, by the prefix of what checks ask about them."""
STANDING = {
    f"{prefix}_{'fallen' if word == 'fell' else word}": (field, word)
    for prefix, field in FOLLOWED.items()
    for word in "gained risen lean fell lost unit solved unpaid first now best shown since settled".split()
}
"""What a check may ask by parameter name about these series: the field, and the word of its `Standing` by the row."""
SUCCESS = ("reward_mean", "success_rate", "eval_score")
"""Fields that measure success."""
CHANCE = {"success_rate": 0.5, "eval_score": 0.5}
"""What whoever guesses has of the pairs that a preference run tells apart, by field. Their share begins at 0, for ties
count as wrong, and comes to one in two as soon as policy and reference differ by anything."""
TURNED = ("loss", "eval_loss")
"""Fields that should decrease in a supervised or preference run."""


def success_of(run_type: str) -> dict[str, Trajectory]:
    """The series of success of such a run, and those beside it, by field, before its first row."""
    turned = () if run_type == "rl" else TURNED
    pairs = ("reward_margin",) if run_type == "preference" else ()
    chance = CHANCE if run_type == "preference" else {}
    return {
        name: Trajectory(
            -1.0 if name in TURNED else 1.0, apart=name == "eval_score", chance=chance.get(name, -math.inf)
        )
        for name in (*FOLLOWED.values(), *turned, *pairs)
    }


class Trajectory:
    """A series of success and its `Outcome` so far; ``sign`` -1 where less is success, ``apart`` for values that are
    measured so far apart that their noise is independent, ``chance`` what success is without having learnt anything."""

    def __init__(self, sign: float = 1.0, *, apart: bool = False, chance: float = -math.inf) -> None:
        self.sign, self.apart, self.chance = sign, apart, chance
        self.rows, self.width = 0, 1
        self.sums = array("d", [0.0])
        """Sum of all values up to the end of each full bin."""
        self.begins: tuple[float, ...] = ()
        """Step at which each bin begins, the one that is being filled included."""
        self.total, self.low, self.high, self.lowest, self.top = 0.0, math.inf, -math.inf, 0, math.nan
        """Sum, smallest and largest of the values, how many are the smallest, and the largest that one can be."""
        self.full: tuple[int, float, float, int, float] = 0, math.inf, -math.inf, 0, math.nan
        """How many values there were at the end of the last full bin, and the last four of these."""
        self._standing: Standing | None = None

    def push(self, value: float, step: float, top: float = math.nan) -> None:
        """Takes one value, and the largest that a single response got; a value that is not finite is passed over."""
        if math.isfinite(value):
            value = self.sign * float(value)
            self._take(1, self.total + value, (value, 1), value, float(top), float(step))

    def block(self, values: np.ndarray, steps: np.ndarray, tops: np.ndarray) -> Iterator[int]:
        """Takes many values, a bin at a time; yields how many of them have been taken whenever a bin is full."""
        at = np.flatnonzero(np.isfinite(values))
        finite, begun = self.sign * values[at], 0
        while begun < len(at):
            end = begun + self.width - self.rows % self.width
            part, rows = finite[begun:end], at[begun:end]
            low = part.min()
            total = np.add.accumulate(np.concatenate(([self.total], part)))[-1]
            lowest = float(low), int((part == low).sum())
            top = np.fmax.reduce(tops[rows])
            self._take(len(part), float(total), lowest, float(part.max()), float(top), float(steps[rows[0]]))
            if end <= len(at):
                yield int(rows[-1]) + 1
            begun = end

    def _take(self, rows: int, total: float, lowest: tuple[float, int], high: float, top: float, step: float) -> None:
        """Takes values of one bin: the sum up to them, the smallest and how many, the largest, the first one's step."""
        if self.rows % self.width == 0:
            self.begins += (step,)
        self.total = total
        self.rows += rows
        low, equal = lowest
        if low < self.low:
            self.low, self.lowest = low, equal
        elif low == self.low:
            self.lowest += equal
        if high > self.high:
            self.high = high
        if top > self.top or self.top != self.top:
            self.top = top
        if self.rows % self.width == 0:
            self.sums = self.sums + array("d", [self.total])
            if len(self.sums) > BINS:
                self.sums, self.begins, self.width = self.sums[::2], self.begins[::2], 2 * self.width
            self.full, self._standing = (self.rows, self.low, self.high, self.lowest, self.top), None

    def copy(self) -> Trajectory:
        """An independent copy."""
        other = Trajectory.__new__(Trajectory)
        other.__dict__ = self.__dict__.copy()  # nothing in it is changed in place; `copy.copy` takes ten times as long
        return other

    @property
    def recent(self) -> float:
        """Mean of the last few bins; NaN before there is one."""
        tail = min(WINDOW, len(self.sums) - 1)
        return (self.sums[-1] - self.sums[-1 - tail]) / (tail * self.width) if tail else math.nan

    @property
    def unpaid(self) -> bool:
        """Whether almost every value is the smallest, and that is 0 or less."""
        return at_floor(self.rows, self.low, self.lowest)

    @property
    def standing(self) -> Standing:
        """The state of the series at the end of its last full bin."""
        if self._standing is None:
            self._standing = Standing(self)
        return self._standing

    @property
    def outcome(self) -> Outcome:
        """The same as a record."""
        return self.standing.outcome


class Parts:
    """The trajectory of every part of a reward by its name, of components or of tasks: a state for `columns.fold`."""

    def __init__(self) -> None:
        self.series: dict[str, Trajectory] = {}

    def copy(self) -> Parts:
        """An independent copy."""
        other = Parts()
        other.series = {name: series.copy() for name, series in self.series.items()}
        return other

    def take(self, values: Mapping[str, Any] | None, step: float) -> list[tuple[str, Trajectory]]:
        """Takes the values of one row; the parts that have one there, in the row's order."""
        known = [(name, value) for name, value in (values or {}).items() if isinstance(value, int | float)]
        for name, value in known:
            self.series.setdefault(name, Trajectory()).push(value, step)
        return [(name, self.series[name]) for name, _ in known]


def named(parts: Mapping[str, Any] | None, place: float) -> str:
    """The name of the part that has a number at this place of its row; a log may hold any."""
    names = [name for name, value in (parts or {}).items() if isinstance(value, int | float)]
    return "".join(filter(str.isprintable, names[int(place)]))[:LONGEST]
