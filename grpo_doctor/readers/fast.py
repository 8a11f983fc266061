"""Reads the wanted keys of rows with identical keys directly into columns, without a Python mapping per row.

A JSON row matches a shape if it has the same number of keys, and all wanted keys. Any other row is parsed normally.
Rows with a bare NaN, which is not strict JSON, are also parsed normally.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np

_listed = msgspec.json.Decoder(list[float]).decode
CHUNK = 4096
"""Number of rows that are buffered before they are converted to columns."""
LEARNED_FROM = 200
"""Number of rows of one shape that are parsed normally before their keys are learned."""

KEY = b'":'
"""Text that occurs once for each key in a JSON row, and more often if the row contains text that looks like keys."""


_AS_IT_STANDS = re.compile(r'[^"\\\x00-\x1f\ud800-\udfff]*')


def stands_in_json(key: str) -> bool:
    """Return whether a key needs no escaping in JSON, because `JsonShape` does not find escaped keys."""
    return _AS_IT_STANDS.fullmatch(key) is not None


class Shape(ABC):
    """A buffer of rows with the same keys. The buffered rows are converted to columns together.

    Attributes:
        keys: all keys of the rows, wanted or not.
        step_key: the wanted key that counts the rows. If ``step_key`` is None, ``steps`` contains the step of each row,
            or NaN.
    """

    def __init__(self, keys: Iterable[str], step_key: str | None = None) -> None:
        self.keys, self.step_key = frozenset(keys), step_key
        self.lines: list[int] = []
        self.steps: list[float] = []

    @abstractmethod
    def columns(self) -> dict[str, Any]:
        """Return the values of each wanted key, and clear the buffer. A value is None if it is missing from the row."""


class JsonShape(Shape):
    """Buffers JSON rows. ``strict`` rejects numbers in strings."""

    def __init__(self, keys: Iterable[str], wanted: Iterable[str], step_key: str | None, strict: bool) -> None:
        super().__init__(keys, step_key)
        self._rows: list[Any] = []
        self._names = {key: f"f{i}" for i, key in enumerate(wanted)}
        row = msgspec.defstruct(
            "Row",
            [(name, float | bool | None if strict else float | None) for name in self._names.values()],
            rename={name: key for key, name in self._names.items()},
            gc=False,
        )
        self._decode = msgspec.json.Decoder(row, strict=strict).decode

    def take(self, raw: bytes, line: int, step: float | None) -> bool:
        """Buffer a row of this shape; return False for any other row."""
        if step is not None and self.step_key is not None:
            return False
        try:
            self._rows.append(self._decode(raw))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        self.lines.append(line)
        if self.step_key is None:
            self.steps.append(math.nan if step is None else step)
        return True

    def columns(self) -> dict[str, list[Any]]:
        found = {key: list(map(attrgetter(name), self._rows)) for key, name in self._names.items()}
        self._rows = []
        return found


class NumberShape(Shape):
    """Buffers rows whose wanted values are finite numbers."""

    def __init__(self, keys: Iterable[str], wanted: Sequence[str], step_key: str | None = None) -> None:
        super().__init__(keys, step_key)
        self._wanted = wanted
        self._rows: list[list[float]] = []

    def put(self, texts: Sequence[str], line: int) -> bool:
        """Buffer the values of a row. Return False if any value is not a plain finite number."""
        try:
            values = _listed(f"[{','.join(texts)}]")
        except (msgspec.DecodeError, UnicodeEncodeError):
            return False
        if len(values) != len(texts):  # a comma within a text
            return False
        self._rows.append(values)
        self.lines.append(line)
        return True

    def columns(self) -> dict[str, Any]:
        found = dict(zip(self._wanted, np.array(self._rows).T, strict=True))
        self._rows = []
        return found


class CellShape(NumberShape):
    """Buffers rows of a table that have no empty cells and whose wanted cells are finite numbers."""

    def __init__(self, names: Sequence[str], wanted: Sequence[str], step_key: str | None) -> None:
        super().__init__(names, wanted, step_key)
        self._places = [names.index(key) for key in wanted]

    def take(self, cells: Sequence[str], line: int) -> bool:
        """Buffer a row of this shape; return False for any other row."""
        if not all(cells) or not self.put([cells[place] for place in self._places], line):
            return False
        if self.step_key is None:
            self.steps.append(math.nan)
        return True
