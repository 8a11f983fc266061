"""Reads tables with one row per step and a header of metric names, as CSV, TSV, Markdown, or columns separated by
spaces.

Exports of Weights & Biases contain the name of the run in every column name (``run - reward``, also with ``__MIN`` and
``__MAX``). Each name becomes a separate run. A TensorBoard export has one scalar, whose name is in the file name.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from ...run import Run
from ..aliases import resolve, words
from ..document import curve, names_runs, runs_of, widened
from ..fast import LEARNED_FROM, CellShape
from ..input import Head, Input
from ..row_buffer import Rows
from ..row_kinds import VALUES, melted
from ..values import number
from . import text_tables

FORMAT = "csv"
_DELIMITERS = ",\t;"
_STATISTICS = frozenset("mean std min max".split())
_SCALARS = ({"wall time", "step", "value"}, {"step", "timestamp", "value"})
"""The columns of exports of TensorBoard and Neptune, which have one scalar."""
_TAG = re.compile(r"-tag-([^()]+?) ?(?:\(\d+\))?\.csv", re.IGNORECASE)
_EXPORTED = re.compile(r"(?P<run>.+) - (?P<key>.+?)(?P<extreme>__MIN|__MAX)?")


def sniff(head: Head) -> int:
    lines = _lines(head)
    if _header(lines, head.name, head.mapping):
        names, *rows = [split(line, _delimiter(lines[0])) for line in lines[: 12 if len(lines) > 12 else None]]
        rows = rows[:-1] if len(rows) == len(lines) - 1 > 1 else rows  # the last line of the file may be incomplete
        return 2 if all(len(row) == len(names) for row in rows) else 0
    if "{'" not in head.text and text_tables.found(lines, head.mapping):
        return 1
    return 1 if _of_others(head) else 0


def read(file: Input) -> list[Run]:
    first = file.head()
    head = _lines(first)
    plain = _header(head, file.path.name, file.mapping)
    drawn = None if plain else text_tables.found(head, file.mapping)
    if not plain and drawn is None:
        foreign = Rows(file, FORMAT)
        foreign.unread = _of_others(first)
        return foreign.runs()
    delimiter, names = drawn or (_delimiter(head[0]), plain)
    if plain and not VALUES.isdisjoint(names) and (rows := _rows(file, delimiter, names)) != (wide := widened(rows)):
        return Rows.apart(file, FORMAT, runs_of(wide))
    tables = _plain(file, delimiter, names) if plain else _drawn(file, delimiter, names)
    if names_runs(names) and len(tables) == 1 and tables[0].rows.comes_again:
        parts = runs_of(_rows(file, delimiter, names))
        if len(parts) > 1:
            return Rows.apart(file, FORMAT, parts)
    return [run for table in tables for run in table.rows.runs()]


def _tables(file: Input, names: list[str]) -> list[_Table]:
    """Return the empty tables for a header, one per run."""
    return [_Table(Rows(replace(file, shown=f"{file.source} ({run})") if run else file, FORMAT), columns)
            for run, columns in _columns(file.path.name, names).items()]  # fmt: skip


def _plain(file: Input, delimiter: str, names: list[str]) -> list[_Table]:
    """Return the tables of a file that contains only one table."""
    tables, below = _tables(file, names), False
    for line, text in file.lines():
        cells = split(text.replace(",", ".") if below and delimiter == ";" else text, delimiter)
        if cells == names or (not below and text[:1] == "#" and split(text.lstrip("# "), delimiter) == names):
            below = True
        elif below and len(cells) == len(names) and not text_tables.RULE.fullmatch(text):
            for table in tables:
                table.add(cells, line)
        elif below and text.strip():
            tables[0].rows.unreadable(line)
    return tables


def _drawn(file: Input, delimiter: str, names: list[str]) -> list[_Table]:
    """Return the tables that are drawn within a text."""
    found: dict[tuple[str, ...], list[_Table]] = {}
    lines = ((line, text, split(text, delimiter)) for line, text in file.lines())
    for above, line, cells in text_tables.rows(lines, delimiter, names, file.mapping):
        if (known := found.get(tuple(above))) is None:
            own = replace(file, shown=f"{file.source} (table {len(found) + 1})") if found else file
            known = found[tuple(above)] = _tables(own, text_tables.titles(above, cells))
        for table in known:
            table.add(text_tables.counted(cells), line)
    return [table for known in found.values() for table in known] or _tables(file, text_tables.titles(names))


class _Table:
    """The rows of one run, and its columns by position. Once the wanted columns are known, complete rows are read
    without a mapping per row."""

    def __init__(self, rows: Rows, columns: Mapping[int, str]) -> None:
        self.rows, self.columns = rows, columns
        self._shape: CellShape | None = None
        self._read = 0

    def add(self, cells: Sequence[str], line: int) -> None:
        own = [cells[place] for place in self.columns]
        if self._shape is not None and self._shape.take(own, line):
            self.rows.hold(self._shape)
            return
        row = {name: cell for name, cell in zip(self.columns.values(), own, strict=True) if cell}
        if not row or not self.rows.add(row, line) or len(row) < len(self.columns):
            return
        self._read += 1
        if self._read % LEARNED_FROM == 0 and (wanted := self.rows.wanted(row)):
            self._shape = CellShape(list(self.columns.values()), wanted, self.rows.step_key(row))


def _rows(file: Input, delimiter: str, names: list[str]) -> list[dict[str, str]]:
    """Return the rows of a table."""
    table = [split(text, delimiter) for _, text in file.lines()]
    return [dict(zip(names, cells, strict=True)) for cells in table if len(cells) == len(names) and cells != names]


def _lines(head: Head) -> list[str]:
    """Return the lines that are not empty or comments. A comment directly above numbers is included if it contains the
    names of the columns."""
    lines = [line for line in head.lines if line.strip()]
    kept = [line for line in lines if not line.startswith("#")]
    at = lines.index(kept[0]) if kept else 0
    delimiter = _delimiter(kept[0]) if at else ""
    if not delimiter or any(number(cell) is None for cell in split(kept[0], delimiter)):
        return kept
    names = lines[at - 1].lstrip("# ")
    return [names, *kept] if len(split(names, delimiter)) == len(split(kept[0], delimiter)) else kept


def _delimiter(line: str) -> str:
    counts = {mark: line.count(mark) for mark in _DELIMITERS}
    best = max(_DELIMITERS, key=lambda mark: counts[mark])
    return best if counts[best] else ""


def _header(lines: list[str], file: str, mapped: Collection[str]) -> list[str]:
    """Return the names in the first line of a file that is a single table; empty for other files.

    A header of a table contains two known names, one known name if all cells are numbers, or a mapped name.
    """
    delimiter = _delimiter(lines[0]) if len(lines) > 1 else ""
    names = split(lines[0], delimiter) if delimiter else []
    if not names or any(number(name) is not None for name in names):
        return []
    keys = [key for columns in _columns(file, names).values() for key in columns.values()]
    if not set(mapped).isdisjoint(keys):
        return names
    if not any(map(text_tables.counts_rows, names)) and any(map(_worded, split(lines[1], delimiter))):
        return []  # a table of models or datasets: its rows are not steps
    known = [key for key in keys if text_tables.counts_rows(key) or resolve(key)]
    long = any(map(text_tables.counts_rows, names)) and melted(dict.fromkeys(names, "x")).keys() != set(names)
    below = [split(line, delimiter) for line in lines[1:12]]
    alone = any(not text_tables.counts_rows(key) for key in known) and _numeric(below, names)
    return names if len(known) > 1 or alone or long or _holds_a_scalar(names) else []


def _numeric(rows: list[list[str]], names: list[str]) -> bool:
    """Return whether there are several rows below the names, and all their cells are numbers."""
    rows = [row for row in rows if len(row) == len(names)] if len(rows) >= _LEAST_ROWS else []
    return len(rows) >= _LEAST_ROWS and all(number(cell) is not None for row in rows for cell in row)


def _holds_a_scalar(names: list[str]) -> bool:
    """Return whether a table has the columns of an export of one scalar."""
    return len(names) == 3 and {name.lower() for name in names} in _SCALARS


def _of_others(head: Head) -> dict[str, int]:
    """Return the column names of a table without metrics, each with the number of rows (1 if not all cells are
    numbers). The console reader must not parse the cells: benchmark questions and experiment summaries contain
    sentences such as "accuracy 0.7".
    """
    lines = head.text.splitlines(keepends=True)
    drawn = lines and lines[0][:1] in text_tables.BARS
    try:
        delimiter = _delimiter(lines[0]) if lines else ""
        cells = (split(line, "|") for line in lines) if drawn else csv.reader(lines, delimiter=delimiter or ",")
        rows = [row for row in cells if row and not all(map(text_tables.RULE.fullmatch, row))]
    except csv.Error:
        return {}
    names, whole = (rows[0], rows[1 : -1 if len(rows) > _LEAST_ROWS else None]) if rows else ([], [])
    alike = len(whole) >= _LEAST_ROWS - 1 and all(len(row) == len(names) for row in whole)
    numeric = _numeric(whole[:11], names)
    named = len(set(names)) == len(names) and all(map(_COLUMN.fullmatch, filter(None, names)))
    wide = len(names) >= (2 if numeric else _LEAST_COLUMNS)
    return dict.fromkeys(names, len(rows) - 1 if numeric else 1) if alike and wide and named else {}


_COLUMN = re.compile(r"\ufeff?[^\W\d](?:[^=:|{}\[\]\n\d]|\d(?!\.\d)){0,100}")
"""A column name. Unlike a line of a console, a column name does not contain a value."""
_LEAST_ROWS, _LEAST_COLUMNS = 3, 3
"""Minimum number of rows (including the header) and minimum number of columns for similar lines to be a table."""


def _worded(cell: str) -> bool:
    """Return whether a cell contains a word, not a number or a time, and is not empty."""
    return bool(cell) and number(cell) is None and not cell[0].isdigit() and cell.lower() not in ("nan", "none", "null")


def _columns(file: str, names: list[str]) -> dict[str, dict[int, str]]:
    """Return the column names of every run in a table, by position. In an export of one scalar, the file name contains
    the name of the scalar."""
    if _holds_a_scalar(names):
        low, tag = [name.lower() for name in names], _TAG.search(file)
        told = tag[1] if tag else curve(file.rpartition(".")[0])
        step, value = low.index("step"), low.index("value")
        return {"": {step: names[step], value: told if tag or resolve(told) else names[value]}}
    exported = [_EXPORTED.fullmatch(name) for name in names]
    if not names or exported[0] is not None or len(names) < 2 or not all(exported[1:]):
        of_rewards = words(file.partition(".")[0]) & {"reward"}
        return {
            "": {
                i: f"reward {n}" if of_rewards and words(n) and words(n) <= _STATISTICS else n
                for i, n in enumerate(names)
                if n
            }
        }
    runs: dict[str, dict[int, str]] = {}
    for place, match in enumerate(exported):
        if match is not None and not match["extreme"]:
            runs.setdefault(match["run"], {0: names[0]})[place] = match["key"]
    return runs


def split(line: str, delimiter: str = ",") -> list[str]:
    """Return the cells of one line; empty if its quotes are unbalanced."""
    if delimiter in text_tables.PARTED:
        return text_tables.split(line, delimiter)
    if '"' not in line:
        return [cell.strip() for cell in line.removeprefix("\ufeff").split(delimiter)]
    try:
        rows: Iterator[list[str]] = csv.reader([line], delimiter=delimiter)
        return [cell.strip() for cell in next(rows, [])]
    except csv.Error:
        return []
