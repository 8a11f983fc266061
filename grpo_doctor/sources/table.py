"""CSV and TSV with one row a step and the names of the metrics in the first line."""

from __future__ import annotations

import csv
from collections.abc import Iterator

from ..run import Run
from . import Head, Input
from .aliases import STEP_KEYS, resolve
from .rows import Rows, number

FORMAT = "csv"
_DELIMITERS = ",\t;"


def sniff(head: Head) -> int:
    lines = [line for line in head.lines[:12] if line.strip()]
    delimiter = _delimiter(lines[0]) if len(lines) > 1 else ""
    if not delimiter:
        return 0
    names = split(lines[0], delimiter)
    rows = [split(line, delimiter) for line in lines[1 : -1 if len(lines) > 2 else None]]
    known = [name for name in names if name.lower() in STEP_KEYS or resolve(name)]
    if any(number(name) is not None for name in names) or len(known) < 2:
        return 0
    return 2 if all(len(row) == len(names) for row in rows) else 0


def read(file: Input) -> list[Run]:
    rows = Rows(file, FORMAT)
    lines = file.lines()
    first = next((text for _, text in lines if text.strip()), "")
    delimiter = _delimiter(first)
    names = split(first, delimiter)
    for line, text in lines:
        cells = split(text, delimiter)
        if len(cells) == len(names):
            rows.add({name: cell for name, cell in zip(names, cells, strict=True) if cell}, line)
        elif text.strip():
            rows.unreadable(line)
    return [rows.run()]


def _delimiter(line: str) -> str:
    counts = {mark: line.count(mark) for mark in _DELIMITERS}
    best = max(_DELIMITERS, key=lambda mark: counts[mark])
    return best if counts[best] else ""


def split(line: str, delimiter: str = ",") -> list[str]:
    """The cells of one line, none where its quotes are torn."""
    if '"' not in line:
        return [cell.strip() for cell in line.removeprefix("\ufeff").split(delimiter)]
    try:
        rows: Iterator[list[str]] = csv.reader([line], delimiter=delimiter)
        return [cell.strip() for cell in next(rows, [])]
    except csv.Error:
        return []
