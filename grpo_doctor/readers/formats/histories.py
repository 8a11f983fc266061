"""Reads complete histories that a program prints at its end, one line per metric: ``rewards: [0.1, 0.2]``, ``loss =
[0.9, 0.8]``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..aliases import resolve
from ..values import number

_LINE = re.compile(r"\W{0,8}([A-Za-z][\w /.()-]{0,40}?)\s?[:=]\s?\[([-+.\w,\s]*)\]\s*")
_ITEM = re.compile(r"\s{0,8}-\s{1,4}([-+.\w]{1,30})\s*")
"""One number of a YAML list below the name of a metric."""
_NAME = re.compile(r"\s{0,8}([A-Za-z][\w /.]{0,40}):\s*")
_OF_GROUPS = frozenset(["advantage_mean"])
"""Lists that only occur for the responses to one prompt: rewards next to them are not a history either."""
_SHORTEST = 5
"""Minimum length of a history, with another metric of the same length: groups of four responses are common."""


class Histories:
    """Lists of numbers after the name of a metric on a separate line."""

    def __init__(self) -> None:
        self._lists: dict[str, tuple[int, list[float]]] = {}
        self._again: set[str] = set()
        self._below: list[float] | None = None

    def see(self, line: int, text: str) -> None:
        """Process a line with such a list; a repeated name is per step, and not a history."""
        if self._items(line, text):
            return
        if text[-1:] not in ("]", " ") or (found := _LINE.fullmatch(text)) is None or not resolve(found[1]):
            return
        name = found[1]
        values = [number(figure) for figure in found[2].split(",")]
        known = [value for value in values if value is not None]
        if name in self._lists:
            self._again.add(name)
        elif len(known) == len(values) >= _SHORTEST:
            self._lists[name] = line, known

    def _items(self, line: int, text: str) -> bool:
        """Process the name of a YAML list or one of its numbers; return whether the line was one of these."""
        if self._below is not None and (found := _ITEM.fullmatch(text)) and (figure := number(found[1])) is not None:
            self._below.append(figure)
            return True
        self._below = None
        if text.rstrip()[-1:] == ":" and (name := _NAME.fullmatch(text)) and resolve(name[1]):
            if name[1] in self._lists:
                self._again.add(name[1])
            else:
                self._below = []
                self._lists[name[1]] = line, self._below
        return self._below is not None

    def rows(self) -> Iterator[tuple[int, dict[str, float]]]:
        """Return the rows of the longest lists of at least two metrics, and the line on which they end."""
        if any(alias.field in _OF_GROUPS for name in self._lists for alias in resolve(name)):
            return
        lists = {name: held for name, held in self._lists.items() if name not in self._again}
        lengths = [len(values) for _, values in lists.values() if len(values) >= _SHORTEST]
        longest = max((length for length in lengths if lengths.count(length) > 1), default=0)
        own = {name: values for name, (_, values) in lists.items() if len(values) == longest}
        line = max((line for line, values in lists.values() if len(values) == longest), default=0)
        for row in range(longest):
            yield line, {name: values[row] for name, values in own.items()}
