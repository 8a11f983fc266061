"""Reads EasyR1's console: ``Step 12``, and below it the metrics of that step as a YAML mapping, one name per line.

Its keys are those of verl, split at their slashes: ``mean`` below ``score`` below ``critic`` is ``critic/score/mean``.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_PREFIX = r"((?:\([\w.:-]{1,60} pid=\d{1,10}[^()]{0,60}\) )?)"
_HEAD = re.compile(_PREFIX + r"Step (\d{1,12})\s*")
_ENTRY = re.compile(r"( *)([\w./@-]{1,80}):(?: (\S{1,60}))?\s*")


_OF_VERL = ("actor/", "critic/", "val/")
"""Prefixes of keys in such a mapping; without one of them it is not verl's."""


class Row(NamedTuple):
    """The metrics of one step and the line of its heading."""

    step: float
    line: int
    metrics: dict[str, str]


class Indented:
    """Collects the lines of such mappings."""

    def __init__(self) -> None:
        self._head: tuple[float, int] | None = None
        self._prefix = ""
        self._path: list[tuple[int, str]] = []
        self._metrics: dict[str, str] = {}
        self.used = False
        """Whether there has been one: then no line may be skipped."""

    @property
    def open(self) -> bool:
        return self._head is not None

    def see(self, text: str) -> bool:
        """Process a line of a mapping; return False for any other."""
        if self._head is not None and (not self._prefix or text.startswith(self._prefix)):
            entry = _ENTRY.fullmatch(text[len(self._prefix) :])
            if entry is not None and (entry[3] is None or self._path):
                self._take(len(entry[1]), entry[2], entry[3])
                return True
        return False

    def begins(self, line: int, text: str) -> bool:
        """Return whether a line is the heading of a mapping, if one follows."""
        found = _HEAD.fullmatch(text)
        if found is not None:
            self._prefix, self._head = found[1], (float(found[2]), line)
        return found is not None

    def ends(self, text: str) -> bool:
        """Return whether a line that is not part of the mapping ends it."""
        return self.open and (not self._prefix or text.startswith(self._prefix))

    def _take(self, indent: int, key: str, value: str | None) -> None:
        while self._path and self._path[-1][0] >= indent:
            self._path.pop()
        if value is None:
            self._path.append((indent, key))
        else:
            self._metrics["/".join([*(name for _, name in self._path), key])] = value

    def whole(self) -> Row | None:
        """Return the completed row; None if no mapping followed the heading."""
        known = any(key.startswith(_OF_VERL) for key in self._metrics)
        row = Row(*self._head, self._metrics) if self._head is not None and known else None
        self._head, self._path, self._metrics = None, [], {}
        self.used |= row is not None
        return row
