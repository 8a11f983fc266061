"""What a value of a log is: the number that it holds, whatever it is written as, and the value of a JSON text."""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec

_decoder = msgspec.json.Decoder()


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
