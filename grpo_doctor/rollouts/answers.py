"""Extracts the final answer from a response and compares it with a reference answer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

_BOXED = re.compile(r"\\(?:boxed|fbox)\s*(?=\{)")
_MARKED = re.compile(r"<answer>(.*?)</answer>|^#### *(.+)$", re.DOTALL | re.MULTILINE)
MARKERS = (r"\boxed", "<answer>", "####")
"""Markers of a final answer in a response."""
_LONGEST = 200
_DROPPED = re.compile(
    r"\\(?:left|right|displaystyle|,|;|!|:|quad|qquad| )|\\(?:text|mathrm|mbox|textbf)\s*\{[^{}]*\}|[$£€\s]|\\\$|\\%|%"
    r"|(?<=\d),(?=\d{3}\b)|\{,\}|\.$|\^\\?circ|\^\{\\circ\}|°"
)
"""Characters that do not change an answer: spacing, units in text, currency and percent signs, thousands separators."""
_FRACTION = re.compile(r"\\[dt]?frac\{(-?[\d.]{1,20})\}\{(-?[\d.]{1,20})\}|\\[dt]?frac(\d)(\d)")
_NUMBER = re.compile(r"([-+]?)(?:(\d{1,30}(?:\.\d{0,30})?|\.\d{1,30})(?:/(\d{1,30}))?)([a-zA-Z]{0,12})$")


def final_answer(text: str) -> str | None:
    """Return the last marked answer of a response; None if no answer is marked."""
    found = None
    for match in _BOXED.finditer(text):
        found = _braced(text, match.end()) or found
    if found is None:
        for match in _MARKED.finditer(text):
            found = match[1] or match[2]
        if found is not None and (inner := _BOXED.search(found)):
            found = _braced(found, inner.end()) or found
    return found.strip() if found is not None and len(found) <= _LONGEST else None


def _braced(text: str, start: int) -> str | None:
    """Return the text between the brace at ``start`` and its closing brace; None if it is too long."""
    depth = 0
    for place in range(start, min(len(text), start + _LONGEST)):
        depth += (text[place] == "{") - (text[place] == "}")
        if depth == 0:
            return text[start + 1 : place]
    return None


def agrees(answer: str, references: Sequence[str]) -> bool | None:
    """Return whether an answer equals a reference; None if unknown, because the texts differ and are not all
    numbers."""
    given, known = _plain(answer), [_plain(_last(reference)) for reference in references]
    if given in known:
        return True
    value, values = _value(given), [_value(reference) for reference in known]
    if value is None or None in values:
        return None
    return any(value == other for other in values)


def _last(reference: str) -> str:
    """Return the final answer in a reference, which may be a complete solution."""
    marked = final_answer(reference)
    return reference if marked is None else marked


def _plain(text: str) -> str:
    text = _FRACTION.sub(lambda m: f"{m[1] or m[3]}/{m[2] or m[4]}", text.strip().strip("\"'`*"))
    return _DROPPED.sub("", text).lower().removesuffix(".")


@lru_cache(1024)
def _value(text: str) -> Fraction | None:
    """Return the number in a plain answer, without its unit."""
    match = _NUMBER.match(text)
    if match is None or (match[3] and not int(match[3])):
        return None
    if match[4] and match[4][0] in "eE":
        return None
    whole = Fraction(match[2].rstrip(".") or "0")
    value = whole / int(match[3]) if match[3] else whole
    return -value if match[1] == "-" else value
