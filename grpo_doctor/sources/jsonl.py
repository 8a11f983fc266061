"""Metrics as one JSON object a line, of whatever shape: flat, slash keys, nested, one step over several typed rows."""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec

from ..run import Run
from . import Head, Input
from .fast import CHUNK, LEARNED_FROM, Shape
from .rows import Rows

FORMAT = "metrics-jsonl"

_decoder = msgspec.json.Decoder()


def sniff(head: Head) -> int:
    lines = [line for line in head.lines[:20] if line.strip()]
    objects = sum(line.lstrip().startswith("{") and isinstance(loaded(line), dict) for line in lines)
    return 2 if objects and objects >= 0.5 * len(lines) else 0


def read(file: Input) -> list[Run]:
    reader = _Reader(file)
    for line, raw in file.raw_lines():
        if not reader.quick(raw, line):
            for text in file.texts(raw):
                reader.slow(text, line, raw)
    return [reader.finish()]


class _Reader:
    """Reads rows the slow way until their keys are known, then rows of the same keys column by column."""

    def __init__(self, file: Input) -> None:
        self.rows = Rows(file, FORMAT)
        self.shape: Shape | None = None
        self.read = self.torn = self.last = 0

    def quick(self, raw: bytes, line: int) -> bool:
        if self.shape is None or not self.shape.take(raw, line):
            return False
        if len(self.shape.rows) == CHUNK:
            self.rows.extend(self.shape)
        return True

    def slow(self, text: str, line: int, raw: bytes) -> None:
        if not text or text.isspace():
            return
        if self.shape is not None and self.shape.rows:
            self.rows.extend(self.shape)
        row = loaded(text)
        self.last = line
        if not isinstance(row, dict):
            self.torn = line
            self.rows.unreadable(line)
            return
        self.rows.add(row, line)
        self.read += 1
        if self.shape is None and self.read % LEARNED_FROM == 0:
            self.shape = self.rows.shape(row, raw)

    def finish(self) -> Run:
        if self.shape is not None and self.shape.rows:
            self.rows.extend(self.shape)
        if self.torn and self.torn >= self.last and self.torn >= self.rows.last_line:
            self.rows.notes[-1:] = [
                f"line {self.torn} is torn and was left out: the writer was stopped in the middle of it"
            ]
        return self.rows.run()


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
