"""Distinguishes the text of a document about a training run from logs that are pasted into the document."""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Collection

_DOCUMENTS = (".md", ".markdown", ".rst")
_RARE = 4
"""Number of text lines per metrics line above which a file is an essay. Of 46 public READMEs and reports with at least
two metrics lines, 33 have 4.3 to 139 text lines per metrics line (median 27). Files that contain a log or an example
have 1 to 4 text lines per metrics line."""
_FENCE = re.compile(r"[\s>]*(```|~~~)\s*(\w*)")
_CODE = frozenset("python py python3 diff toml yaml yml rust java javascript js typescript ts cpp c go sql".split())
"""Languages of fenced code, in which numbers are settings, not measurements."""
_FEWEST = 5
"""Minimum number of metrics lines at which a fenced block is a log. Examples have fewer metrics lines."""
_TEXT, _OF_CODE = 0, -1
"""`_TEXT`: place of a line outside fenced blocks. `_OF_CODE`: place of a line inside fenced code. The place of a line
in any other fenced block is the number of the block, starting at 1."""


class Essay:
    """The lines of a document. For other files, no lines are collected, because a log may contain any completions."""

    def __init__(self, name: str) -> None:
        self.document = name.lower().endswith(_DOCUMENTS)
        self._lines = array("q")
        self._places = array("q")
        self._fences = self._place = 0

    def see(self, line: int, text: str) -> None:
        """Process a line of the document."""
        if not self.document or not text.strip():
            return
        if (fence := _FENCE.match(text)) is None:
            self._lines.append(line)
            self._places.append(self._place)
        elif self._place:
            self._place = _TEXT
        else:
            self._fences += 1
            self._place = _OF_CODE if fence[2].lower() in _CODE else self._fences

    def sentences(self, metrics: Collection[int]) -> set[int]:
        """Return the metrics lines in the text of an essay. These lines are rare and are not in a fenced block that
        contains a log."""
        places = dict(zip(self._lines, self._places, strict=True))
        counts = Counter(places[line] for line in metrics if line in places)
        logs = {place for place, count in counts.items() if place > _TEXT and count >= _FEWEST}
        said = {line for line in metrics if line in places and places[line] not in logs}
        if not said:
            return said
        first, last = min(said), max(said)
        between = sum(first <= line <= last and place not in logs for line, place in places.items())
        return said if between > _RARE * len(said) else set()
