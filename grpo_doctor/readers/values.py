"""Parses values in a log: numbers in any notation, and JSON texts."""

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
"""Python notation that differs from JSON: strings, words, scalars of numpy and torch, trailing commas."""
_WORDS = {"True": "true", "False": "false", "None": "null", "nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def number(value: Any) -> float | None:
    """Return the number in a value or its text (``np.float64(0.5)``, ``12.5%``, ``'-7.4e-09'``), or None if there is
    none."""
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
    """Return the whole number in a value, or 0 if there is none that fits a record."""
    figure = number(value)
    return int(figure) if figure is not None and abs(figure) <= 2**62 else 0


def loaded(text: str) -> Any:
    """Parse a JSON text, including bare NaN and Infinity, or return NaN if it is not JSON."""
    try:
        return _decoder.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        pass
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return math.nan


def as_json(text: str) -> str:
    """Return a printed Python value as JSON."""
    return _OF_PYTHON.sub(_spelt, text)


def _spelt(match: re.Match[str]) -> str:
    """Return a Python string, word or scalar in JSON notation."""
    if match["end"] == "":
        return match[0]  # the string never ends, so the rest of its line is not searched again
    if (text := match["text"]) is not None:
        quoted = text.replace("\\'", "'").replace('"', '\\"')
        return f'"{quoted}"'
    if match["comma"]:
        return ""
    told = match["word"] or match["number"]
    return _WORDS.get(told, told) if told else match[0]
