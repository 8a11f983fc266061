"""What a value of a log is: the number that it holds, whatever it is written as, and the value of a JSON text."""

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
"""What Python prints otherwise than JSON: strings, words, scalars of numpy and torch, a comma behind the last item."""
_WORDS = {"True": "true", "False": "false", "None": "null", "nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def number(value: Any) -> float | None:
    """The number that a value or its text holds: ``np.float64(0.5)``, ``12.5%``, ``'-7.4e-09'``; None if none."""
    if isinstance(value, bool | int | float):
        try:
            return float(value)
        except OverflowError:  # an integer beyond what a float holds
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
    """The whole number that a value holds; 0 where it holds none that a record could bear."""
    figure = number(value)
    return int(figure) if figure is not None and abs(figure) <= 2**62 else 0


def loaded(text: str) -> Any:
    """The value of a JSON text, bare NaN and Infinity included; NaN where it is no JSON."""
    try:
        return _decoder.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        pass
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return math.nan


def as_json(text: str) -> str:
    """A value that Python printed as JSON has it."""
    return _OF_PYTHON.sub(_spelt, text)


def _spelt(match: re.Match[str]) -> str:
    """A string, a word or a scalar of Python as JSON spells it."""
    if match["end"] == "":
        return match[0]  # it never ends, so that nothing on the rest of its line is looked at again
    if (text := match["text"]) is not None:
        quoted = text.replace("\\'", "'").replace('"', '\\"')
        return f'"{quoted}"'
    if match["comma"]:
        return ""
    told = match["word"] or match["number"]
    return _WORDS.get(told, told) if told else match[0]
