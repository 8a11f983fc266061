"""Parses the values of a log: numbers in any notation, and JSON."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import msgspec

_decoder = msgspec.json.Decoder()
_OF_PYTHON = re.compile(
    r"""'(?P<text>(?:[^'\\\n]|\\.)*+)(?P<end>'?)|"(?:[^"\\\n]|\\.)*+"?|\b(?P<word>True|False|None|nan|inf)\b"""
    r"""|\b(?:(?:np|numpy|torch)\.)?(?:float\d{1,3}|int\d{1,3}|tensor|array)"""
    r"""\((?P<number>-?[\d.]{1,30}(?:e[-+]?\d{1,3})?|nan|-?inf)"""
    r"""(?:, \w+=[\w'.:]{1,40})*+\)|(?P<comma>,)(?=\s*+[}\]])"""
)
"""Python notation that differs from JSON: strings, words, scalars of numpy and torch, and trailing commas."""
_WORDS = {"True": "true", "False": "false", "None": "null", "nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def number(value: Any) -> float | None:
    """Return the number in a value or its text, such as ``np.float64(0.5)``, ``12.5%`` or ``'-7.4e-09'``; None if there
    is no number."""
    if isinstance(value, bool | int | float):
        try:
            return float(value)
        except OverflowError:  # an integer that is too large for a float
            return math.inf if value > 0 else -math.inf
    if not isinstance(value, str) or len(value) > 80:
        return None
    try:
        return float(value)
    except ValueError:
        pass
    text = value.strip().strip("'\"")
    if text.endswith(")") and "(" in text:
        text = text[text.index("(") + 1 : -1].split(",")[0]
    percent = text.endswith("%")
    try:
        return float(text.rstrip("%")) / (100 if percent else 1)
    except ValueError:
        return None


def whole(value: Any) -> int:
    """Return the integer part of the number in a value; 0 if there is no number that fits into a record."""
    figure = number(value)
    return int(figure) if figure is not None and abs(figure) <= 2**62 else 0


def loaded(text: str) -> Any:
    """Parse a JSON text, which may contain bare NaN and Infinity. Return NaN if the text is not JSON."""
    try:
        return _decoder.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        pass
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return math.nan


def as_json(text: str) -> str:
    """Convert a printed Python value to JSON."""
    return _OF_PYTHON.sub(_spelt, text)


def _spelt(match: re.Match[str]) -> str:
    """Return a Python string, word or scalar in JSON notation."""
    if match["end"] == "":
        return match[0]  # the string has no end on this line
    if (text := match["text"]) is not None:
        quoted = text.replace("\\'", "'").replace('"', '\\"')
        return f'"{quoted}"'
    if match["comma"]:
        return ""
    told = match["word"] or match["number"]
    return _WORDS.get(told, told) if told else match[0]
