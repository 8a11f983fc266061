"""Follows a success series and classifies it as learned, solved, fallen, always at its minimum, flat, or unknown.

A `Trajectory` receives the values of one series: reward, success rate, held-out score, or a negated loss. Values may be
added row by row or block by block, with the same result. The memory of a trajectory is bounded: it stores means over at
most `BINS` bins of equal width and doubles the width as the run grows. The series is judged whenever a bin is full, so
a live run and its log give the same results at every row. `series.trend` classifies the series, `series.noise_model`
estimates the noise, and `series.changepoint` finds changes in level.
"""

from __future__ import annotations

import math
from array import array
from collections import namedtuple
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np

from .trend import WINDOW, Outcome, Standing, at_floor

BINS = 128
"""Maximum number of bins, so that the step of a change is accurate to 1/64 of the run or better."""
LONGEST = 60
"""Maximum length of a component's name in reports, in characters."""
MEANT, VALID = "reward_meant", "valid_rate"
"""`MEANT`: the task reward without formatting rewards. `VALID`: the share of valid responses. Both series are judged
like success but do not count as success. Checks use them to decide whether a gain is only a gain in formatting, or
comes at the expense of valid responses."""
FOLLOWED = {"reward": "reward_mean", "success": "success_rate", "eval": "eval_score", "meant": MEANT, "valid": VALID}
"""Series that are judged at every row. The keys are the prefixes of the corresponding check parameters."""


class States(
    namedtuple("States", "gained risen lean fallen lost unit solved unpaid first now best shown since settled")
):
    """The state of a series at each row: a column for each attribute of its `Standing`."""

    __slots__ = ()

    @property
    def gain(self) -> Any:
        """Return how far the series has risen since the start."""
        return self.now - self.first

    @property
    def possible_gain(self) -> Any:
        """Return the largest gain that the noise leaves possible."""
        return self.gain + self.shown


Trend: TypeAlias = Any
"""Type of a check parameter that receives the `States` of a series. Like `Column`, the type is not checked."""
STANDING = {
    f"{prefix}_{word}": (field, "fell" if word == "fallen" else word)
    for prefix, field in FOLLOWED.items()
    for word in States._fields
}
"""The check parameters that describe the series in `FOLLOWED`. Each value is a field, and an attribute of the
`Standing` of the field."""
TRENDS = {f"{prefix}_trend": [f"{prefix}_{word}" for word in States._fields] for prefix in FOLLOWED}
"""The check parameters of type `Trend`. Each value lists the parameters in `STANDING` that a `Trend` replaces."""
SUCCESS = {"reward_mean": "reward", "success_rate": "success rate", "eval_score": "held-out score"}
"""Fields that measure success, with their names. Later fields are closer to the goal of the training."""
CHANCE = {"success_rate": 0.5, "eval_score": 0.5, "reward_margin": 0.02}
"""The level of random guessing in a preference run, by field. The logged accuracy begins at 0, because ties count as
wrong, and becomes 0.5 as soon as the policy differs from the reference model. A margin of up to 0.02 changes the loss
by at most 0.01, as in PRF002."""
TURNED = {"loss": "loss", "eval_loss": "held-out loss"}
"""Fields that should decrease in a supervised or preference run, with their names."""


def success_of(run_type: str) -> dict[str, Trajectory]:
    """Return an empty `Trajectory` by field, for the success series of a run of this type and for the related series.

    Like held-out scores, margins count as measured far apart, because each batch has different pairs. This matters only
    for short series, whose ranks are then tested.
    """
    turned = () if run_type == "rl" else TURNED
    pairs = ("reward_margin",) if run_type == "preference" else ()
    chance = CHANCE if run_type == "preference" else {}
    return {
        name: Trajectory(
            -1.0 if name in TURNED else 1.0,
            apart=name.startswith("eval_") or name == "reward_margin",
            chance=chance.get(name, -math.inf),
        )
        for name in (*FOLLOWED.values(), *turned, *pairs)
    }


class Trajectory:
    """A success series and its `Outcome` so far. ``sign`` is -1 if lower is better. ``apart`` is true if values are
    measured far apart, so that their noise is independent. ``chance`` is the success rate of random guessing."""

    def __init__(self, sign: float = 1.0, *, apart: bool = False, chance: float = -math.inf) -> None:
        self.sign, self.apart, self.chance = sign, apart, chance
        self.rows, self.width = 0, 1
        self.sums = array("d", [0.0])
        """Sum of all values up to the end of each full bin."""
        self.begins: tuple[float, ...] = ()
        """The step at which each bin begins, including the current bin."""
        self.total, self.low, self.high, self.lowest, self.top = 0.0, math.inf, -math.inf, 0, math.nan
        """Sum, smallest and largest value, number of values that equal the smallest value, and the largest single
        reward."""
        self.full: tuple[int, float, float, int, float] = 0, math.inf, -math.inf, 0, math.nan
        """State at the end of the last full bin: number of values, ``low``, ``high``, ``lowest`` and ``top``."""
        self._standing: Standing | None = None

    def push(self, value: float, step: float, top: float = math.nan) -> None:
        """Add one value, and the largest reward of a single response. Values that are not finite are skipped."""
        if math.isfinite(value):
            value = self.sign * float(value)
            self._take(1, self.total + value, (value, 1), value, float(top), float(step))

    def block(self, values: np.ndarray, steps: np.ndarray, tops: np.ndarray) -> Iterator[int]:
        """Add many values, one bin at a time; yield the number of added values whenever a bin is full."""
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
        """Add values of one bin. The arguments are their number, the new total, the smallest value with its count, the
        largest value, the largest single reward, and the first step."""
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
        """Return an independent copy."""
        other = Trajectory.__new__(Trajectory)
        other.__dict__ = self.__dict__.copy()  # no attribute is changed in place; `copy.copy` is ten times slower
        return other

    @property
    def recent(self) -> float:
        """Return the mean of the last `WINDOW` bins; NaN before the first full bin."""
        tail = min(WINDOW, len(self.sums) - 1)
        return (self.sums[-1] - self.sums[-1 - tail]) / (tail * self.width) if tail else math.nan

    @property
    def unpaid(self) -> bool:
        """Return whether almost every value equals the smallest value, and whether the smallest value is 0 or less."""
        return at_floor(self.rows, self.low, self.lowest)

    @property
    def standing(self) -> Standing:
        """Return the state of the series at the end of its last full bin."""
        if self._standing is None:
            self._standing = Standing(self)
        return self._standing

    @property
    def outcome(self) -> Outcome:
        """Return the state as a record."""
        return self.standing.outcome


class Parts:
    """The trajectory of every part of a reward (component or task) by name, as a state for `fold`."""

    def __init__(self) -> None:
        self.series: dict[str, Trajectory] = {}

    def copy(self) -> Parts:
        """Return an independent copy."""
        other = Parts()
        other.series = self.series.copy()
        return other

    def take(self, values: Mapping[str, Any] | None, step: float) -> list[tuple[str, Trajectory]]:
        """Add the values of one row. Return the parts that have a value on the row, in the order of the row."""
        known = []
        for name, value in (values or {}).items():
            if isinstance(value, int | float):
                series = self.series[name].copy() if name in self.series else Trajectory()
                series.push(value, step)
                self.series[name] = series
                known.append((name, series))
        return known


def named(parts: Mapping[str, Any] | None, place: float) -> str:
    """Return the name of the numeric component at this position, made printable, because names in a log may contain any
    character."""
    names = [name for name, value in (parts or {}).items() if isinstance(value, int | float)]
    return printable(names[int(place)])


def printable(name: str) -> str:
    """Return the name of a component without control characters, cut to `LONGEST`."""
    return "".join(filter(str.isprintable, name))[:LONGEST]
