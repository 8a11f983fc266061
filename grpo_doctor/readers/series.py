"""Stores the values of one key of a log over its rows."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np

from .aliases import Alias
from .values import number

CLOCKS = frozenset("epoch wall_time tokens_seen optimizer_step".split())
"""Fields that evaluation rows also have. A row with only these fields is therefore not known to be a training row."""


class Values:
    """The values of one key, one value per row (NaN if missing), and the rows on which a logged value is not finite."""

    __slots__ = ("aliases", "counts", "label", "non_finite", "values")

    def __init__(self, label: str, aliases: tuple[Alias, ...], *, counts: bool = False) -> None:
        self.label, self.aliases, self.counts = label, aliases, counts
        self.values = array("d")
        self.non_finite: list[int] = []

    @property
    def trains(self) -> bool:
        """Return whether a row with this key may be a training row."""
        return not self.counts and (not self.aliases or any(alias.field not in CLOCKS for alias in self.aliases))

    @property
    def known(self) -> int:
        """Return the number of rows with a value, including values that are not finite."""
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
        """Add the values of consecutive rows, starting at row ``row``."""
        try:
            figures = np.array(values, float)
        except (ValueError, TypeError, OverflowError):
            figures = np.array([math.nan if (f := number(v)) is None else f for v in values])
        self.values.extend([math.nan] * (row - len(self.values)))
        self.values.frombytes(figures.tobytes())
        odd = np.flatnonzero(~np.isfinite(figures)).tolist()
        self.non_finite += [row + i for i in odd if number(values[i]) is not None]

    def scatter(self, rows: np.ndarray, values: np.ndarray) -> None:
        """Add the values of some rows, in any order."""
        if len(rows):
            whole = self.full(max(len(self.values), int(rows.max()) + 1)).copy()
            whole[rows] = values
            self.values = array("d", whole.tobytes())
            self.non_finite = sorted({*self.non_finite, *rows[~np.isfinite(values)].tolist()})

    def of(self, rows: np.ndarray, length: int) -> Values:
        """Return the values of only these rows of a log with ``length`` rows."""
        part = Values(self.label, self.aliases, counts=self.counts)
        values = self.full(length)[rows]
        part.values = array("d", values if not np.isnan(values).all() or self.non_finite else ())
        place = {row: at for at, row in enumerate(rows.tolist())} if self.non_finite else {}
        part.non_finite = [place[row] for row in self.non_finite if row in place]
        return part

    def full(self, rows: int) -> np.ndarray:
        """Return a value for each row, or NaN. If every row has a value, the values are not copied, so that a long log
        is not stored twice."""
        if len(self.values) == rows:
            return np.frombuffer(self.values, float)
        values = np.full(rows, math.nan)
        known = np.frombuffer(self.values, float)[:rows]  # a last row that contains only counts is dropped
        values[: len(known)] = known
        return values
