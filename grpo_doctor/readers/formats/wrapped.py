"""Joins rows that are wrapped over several lines, at the width of a terminal or after a separator."""

from __future__ import annotations

import re

from .verl_console import begins

_OPENS = re.compile(r"\{(['\"])[\w/ .-]{1,80}\1: -?\d[^{}]*$")
"""Matches the first line of a wrapped mapping, whose first value is a number and which does not end on this line."""
_TORN_VALUE = re.compile(r"[\d.eE+naif-]{1,30} - [\w./@-]{1,80}:")
"""Start of a line that continues a value from the previous line in verl's output."""
_MOST, _LOST = 100, 2
"""`_MOST`: maximum number of lines of a row. `_LOST`: maximum number of trailing blanks that may be missing from a
copied line."""


class Wrapped:
    """The buffered lines of a row that may be incomplete: a mapping, or metrics of verl."""

    def __init__(self) -> None:
        self._held: list[str] = []
        self._is_mapping = False
        self.line = 0

    @property
    def open(self) -> bool:
        return bool(self._held)

    def take(self, line: int, text: str) -> list[tuple[int, str]]:
        """Add a line, and return the lines that can be read now. A line that continues the buffered row is buffered
        until the row is complete."""
        if self._is_mapping and self._held and "%|" in text:
            return [(line, text)]  # a progress bar between the lines
        if self._held and len(self._held) < _MOST and self._goes_on(text):
            self._held.append(text)
            return self.end() if self._is_mapping and "}" in text else []
        lines = self.end()
        self._is_mapping = _OPENS.match(text) is not None
        if not self._is_mapping and not ("step:" in text and " - " in text and begins(text) >= 0):
            return [*lines, (line, text)]
        self._held, self.line = [text], line
        return lines

    def _goes_on(self, text: str) -> bool:
        first, last = self._held[0], self._held[-1].rstrip()
        if self._is_mapping:
            return "{" not in text and abs(len(self._held[-1]) - len(first)) <= _LOST
        torn = ":" not in last.rpartition(" - ")[2] and "/" in text and ":" in text
        return last.endswith(" -") or text.startswith("- ") or torn or _TORN_VALUE.match(text) is not None

    def end(self) -> list[tuple[int, str]]:
        """Return the buffered lines as one row, or one by one if they are the beginning of a mapping that does not
        end."""
        held, self._held = self._held, []
        if self._is_mapping and not (len(held) > 1 and "}" in held[-1]):
            return [(self.line, text) for text in held]
        return [(self.line, self._joined(held))] if held else []

    def torn(self) -> str:
        """Return the complete part of the buffered mapping if the log ends within it; otherwise, an empty string."""
        whole, comma, _ = "".join(self._held if self._is_mapping else ()).rpartition(", ")
        return f"{whole}}}" if comma else ""

    def _joined(self, held: list[str]) -> str:
        if self._is_mapping:
            return "".join(held)
        whole = held[0]
        for text in held[1:]:
            whole, text = whole.rstrip(), text.rstrip()
            whole += f" {text}" if whole.endswith(" -") or text.startswith("- ") else text
        return whole
