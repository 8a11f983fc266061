"""JSON rows that all have the same keys, decoded into columns: no Python mapping a row, only the keys that are wanted.

A row is of the shape when it has as many keys and all that are wanted; any other row takes the slow way, and so does
every row with a NaN, which strict JSON does not know.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np

CHUNK = 4096
"""Rows that are held before they become columns."""
LEARNED_FROM = 200
"""Rows that are read the slow way first, so that the keys are known."""

_KEY = b'":'


class Shape:
    """The wanted keys of a row: ``numbers`` become float columns, ``objects`` stay as they are."""

    def __init__(self, raw: bytes, numbers: Iterable[str], objects: Iterable[str] = ()) -> None:
        self.numbers, self.objects = tuple(numbers), tuple(objects)
        kinds: list[tuple[str, Any]] = [
            *((k, float | bool | None) for k in self.numbers),
            *((k, Any) for k in self.objects),
        ]
        self._names = {key: f"f{i}" for i, (key, _) in enumerate(kinds)}
        row = msgspec.defstruct(
            "Row",
            [(self._names[key], kind) for key, kind in kinds],
            rename={name: key for key, name in self._names.items()},
            gc=bool(self.objects),
        )
        self._decode = msgspec.json.Decoder(row).decode
        self._keys = raw.count(_KEY)
        self.rows: list[Any] = []
        self.lines: list[int] = []

    def take(self, raw: bytes, line: int) -> bool:
        """Holds a row of this shape; False for any other."""
        if raw.count(_KEY) != self._keys:
            return False
        try:
            self.rows.append(self._decode(raw))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        self.lines.append(line)
        return True

    def columns(self) -> Mapping[str, np.ndarray]:
        """The columns of the rows that are held, NaN (None) where a value is null; they are held no longer."""
        found: dict[str, np.ndarray] = {}
        for key, name in self._names.items():
            values = list(map(attrgetter(name), self.rows))
            if key in self.objects:
                found[key] = np.empty(len(values), object)
                found[key][:] = values
            else:
                found[key] = np.array(values, float)
        return found

    def clear(self) -> None:
        self.rows, self.lines = [], []
