"""Reads metrics as one JSON object per line: flat, with slash keys, nested, or one step in several typed rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...run import Run
from ..document import names_runs, runs_of
from ..input import Head, Input, Torn
from ..row_buffer import Rows
from ..values import loaded

FORMAT = "metrics-jsonl"
_TEXTS = ("message", "msg", "text", "event", "log", "line")
"""Keys of the message in a logging record."""


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
        rows.notes[-1:] = [Torn(f"line {torn} is incomplete and was skipped (the writer was interrupted)")]
    if not len(rows) and (texts := [key for key in _TEXTS if rows.unread.get(key)]):
        from . import console

        return console.of_texts(file, _of_key(file, texts[0]))
    if names_runs(rows.seen) and rows.comes_again and len(parts := runs_of([row for _, row in _objects(file)])) > 1:
        return Rows.apart(file, FORMAT, parts)
    return rows.runs()


def _objects(file: Input) -> Iterator[tuple[int, dict[str, Any]]]:
    for line, text in file.lines():
        if isinstance(row := loaded(text), dict):
            yield line, row


def _of_key(file: Input, key: str) -> Iterator[tuple[int, str]]:
    """Yield the messages of a log whose lines are logging records."""
    for line, row in _objects(file):
        if isinstance(text := row.get(key), str):
            yield line, text
