"""Metrics as one JSON object a line, of whatever shape: flat, slash keys, nested, one step over several typed rows."""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec

from ..run import Run
from . import Head, Input
from .rows import Rows

FORMAT = "metrics-jsonl"

_decoder = msgspec.json.Decoder()


def sniff(head: Head) -> int:
    lines = [line for line in head.lines[:20] if line.strip()]
    objects = sum(line.lstrip().startswith("{") and isinstance(loaded(line), dict) for line in lines)
    return 2 if objects and objects >= 0.5 * len(lines) else 0


def read(file: Input) -> list[Run]:
    rows = Rows(file, FORMAT)
    torn = last = 0
    for line, raw in file.raw_lines():
        if rows.quick(raw, line):
            last = line
            continue
        for text in file.texts(raw):
            if not text or text.isspace():
                continue
            row = loaded(text)
            last = line
            if isinstance(row, dict):
                rows.add(row, line)
                rows.learn(row, raw)
            else:
                torn = line
                rows.unreadable(line)
    if torn and torn == last:
        rows.notes[-1:] = [f"line {torn} is torn and was left out: the writer was stopped in the middle of it"]
    return [rows.run()]


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
