"""The values of one key of a log over its rows."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np

from .aliases import Alias
from .values import number

CLOCKS = frozenset("epoch wall_time tokens_seen optimizer_step".split())
"""Fields that a row of an evaluation bears too: they do not make it one of training."""


class Values:
    """The values of one key, a row each, NaN where it is missing; and the rows that recorded a non-finite value."""

    __slots__ = ("aliases", "counts", "label", "non_finite", "values")

    def __init__(self, label: str, aliases: tuple[Alias, ...], *, counts: bool = False) -> None:
        self.label, self.aliases, self.counts = label, aliases, counts
        self.values = array("d")
        self.non_finite: list[int] = []

    @property
    def trains(self) -> bool:
        """Whether a row with this key may be one of training."""
        return not self.counts and (not self.aliases or any(alias.field not in CLOCKS for alias in self.aliases))

    @property
    def known(self) -> int:
        """Rows that have a value, one that is not finite included; 0 where there were only nulls."""
        missing = int(np.isnan(np.frombuffer(self.values, float)).sum()) if self.values else 0
        return len(self.values) - missing + sum(math.isnan(self.values[row]) for row in set(self.non_finite))

    def put(self, row: int, value: float) -> None:
        missing = row - len(self.values)
        if missing > 0:
            self.values.extend([math.nan] * missing)
        elif missing < 0:
            self.values.pop()
        self.values.append(value)
        if not math.isfinite(value):
            self.non_finite.append(row)

    def take(self, row: int, values: Sequence[Any] | np.ndarray) -> None:
        """Values of many rows as they stand in the log, the first row of which is given."""
        try:
            figures = np.array(values, float)
        except (ValueError, TypeError, OverflowError):
            figures = np.array([math.nan if (f := number(v)) is None else f for v in values])
        self.values.extend([math.nan] * (row - len(self.values)))
        self.values.frombytes(figures.tobytes())
        odd = np.flatnonzero(~np.isfinite(figures)).tolist()
        self.non_finite += [row + i for i in odd if number(values[i]) is not None]

    def scatter(self, rows: np.ndarray, values: np.ndarray) -> None:
        """Values of some rows, in any order."""
        if len(rows):
            whole = self.full(max(len(self.values), int(rows.max()) + 1)).copy()
            whole[rows] = values
            self.values = array("d", whole.tobytes())
            self.non_finite = sorted({*self.non_finite, *rows[~np.isfinite(values)].tolist()})

    def follow(self, later: Values) -> None:
        """Takes the values of a column that begins behind the last one of this, whose own end there."""
        first = next((row for row, value in enumerate(later.values) if not math.isnan(value)), len(later.values))
        del self.values[first:]
        self.values.extend([math.nan] * (first - len(self.values)))
        self.values.extend(later.values[first:])
        self.non_finite += later.non_finite

    def of(self, rows: np.ndarray, length: int) -> Values:
        """The values of these rows alone, of a log of this length."""
        part = Values(self.label, self.aliases, counts=self.counts)
        values = self.full(length)[rows]
        part.values = array("d", values if not np.isnan(values).all() or self.non_finite else ())
        place = {row: at for at, row in enumerate(rows.tolist())} if self.non_finite else {}
        part.non_finite = [place[row] for row in self.non_finite if row in place]
        return part

    def full(self, rows: int) -> np.ndarray:
        """A value for each row; not a copy where every row has one, so that a long log is not held twice."""
        if len(self.values) == rows:
            return np.frombuffer(self.values, float)
        values = np.full(rows, math.nan)
        known = np.frombuffer(self.values, float)[:rows]  # a last row of counts alone was none
        values[: len(known)] = known
        return values
