"""Rows that all have the same keys, read straight into columns: no Python mapping a row, only the keys that are wanted.

A JSON row is of a shape when it has as many keys and all that are wanted; any other row takes the slow way, and so does
every row with a bare NaN, which strict JSON does not know.
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
"""Rows that are held before they become columns."""
LEARNED_FROM = 200
"""Rows that are read the slow way first, so that the keys are known."""

KEY = b'":'
"""How often it stands in a row of JSON tells how many keys it has; more where its texts look like keys."""


_AS_IT_STANDS = re.compile(r'[^"\\\x00-\x1f\ud800-\udfff]*')


def stands_in_json(key: str) -> bool:
    """Whether JSON writes a key as it is: `JsonShape` finds no key that needs an escape."""
    return _AS_IT_STANDS.fullmatch(key) is not None


class Shape(ABC):
    """Rows of the same keys that are held until they become columns together.

    Attributes:
        keys: all keys of such rows, wanted or not.
        step_key: the wanted key that counts the rows; None where ``steps`` holds the step of each row, NaN for none.
    """

    def __init__(self, keys: Iterable[str], step_key: str | None = None) -> None:
        self.keys, self.step_key = frozenset(keys), step_key
        self.lines: list[int] = []
        self.steps: list[float] = []

    @abstractmethod
    def columns(self) -> dict[str, Any]:
        """The values of each wanted key, None where a row has none; the rows are held no longer."""


class JsonShape(Shape):
    """Rows of JSON. ``strict`` refuses numbers that stand as text."""

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
        """Holds a row of this shape; False for any other."""
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


def plain_numbers(texts: Sequence[str]) -> list[float] | None:
    """The numbers that texts hold, all at once; None where one of them is anything but a plain finite number."""
    try:
        values = _listed(f"[{','.join(texts)}]")
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None
    return values if len(values) == len(texts) else None  # a comma within a text


class CellShape(Shape):
    """Rows of a table without empty cells whose wanted cells are finite numbers."""

    def __init__(self, names: Sequence[str], wanted: Sequence[str], step_key: str | None) -> None:
        super().__init__(names, step_key)
        self._wanted = wanted
        self._places = [names.index(key) for key in wanted]
        self._rows: list[list[float]] = []

    def take(self, cells: Sequence[str], line: int) -> bool:
        """Holds a row of this shape; False for any other."""
        if not all(cells):
            return False
        values = plain_numbers([cells[place] for place in self._places])
        if values is None:
            return False
        self._rows.append(values)
        self.lines.append(line)
        if self.step_key is None:
            self.steps.append(math.nan)
        return True

    def columns(self) -> dict[str, Any]:
        found = dict(zip(self._wanted, np.array(self._rows).T, strict=True))
        self._rows = []
        return found
