"""Tables with one row a step and the names of the metrics above them: CSV, TSV, Markdown, columns parted by spaces.

A drawn table may also lie on its side, a row for each metric and a column for each step, as people paste it.

Exports of Weights & Biases name the run in every column (``run - reward``, with ``__MIN`` and ``__MAX`` beside it), and
each is a run of its own. An export of TensorBoard holds one scalar, whose name stands in the name of the file.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from ...run import Run
from ..aliases import STEP_KEYS, resolve, words
from ..collect import Rows
from ..document import names_runs, runs_of
from ..fast import LEARNED_FROM, CellShape
from ..input import Head, Input
from ..kinds import melted
from ..values import number

FORMAT = "csv"
_DELIMITERS = ",\t;"
_DRAWN = ("|", "\t", "  ", " ")
"""What parts the columns of a table that is drawn for readers: bars, tabs, two spaces or more, spaces."""
_BARS = str.maketrans("│┃║", "|||")
"""How bars are drawn, those of the headline often thicker than those below it."""
_DEEPEST = 300
"""Lines above a drawn table at most."""
_STATISTICS = frozenset("mean std min max".split())
_SCALAR = ["wall time", "step", "value"]
_TAG = re.compile(r"-tag-([^()]+?) ?(?:\(\d+\))?\.csv", re.IGNORECASE)
_EXPORTED = re.compile(r"(?P<run>.+) - (?P<key>.+?)(?P<extreme>__MIN|__MAX)?")
_INDEX = ""
"""The name of an index, which is no metric."""
_RULE = re.compile(r"[-=+|: ─-╿]+")
_STEPS = re.compile(r"\b(?:step|iter|iteration|update)s?\b", re.IGNORECASE)
_OF_A_STEP = re.compile(
    r"(?:(?:global |train |training )?(?:step|iter|iteration|update)s? ?)?[@#]?(\d{1,12})", re.IGNORECASE
)
_SPACES = re.compile(r"\s{2,}")


def sniff(head: Head) -> int:
    lines = _lines(head)
    if _header(lines, head.name):
        names, *rows = [split(line, _delimiter(lines[0])) for line in lines[: 12 if len(lines) > 12 else None]]
        rows = rows[:-1] if len(rows) == len(lines) - 1 > 1 else rows  # the last line of the file may be torn
        return 2 if all(len(row) == len(names) for row in rows) else 0
    return 1 if "{'" not in head.text and (_drawn(lines) or _turned(lines)) else 0


def read(file: Input) -> list[Run]:
    head = _lines(file.head())
    plain = _header(head, file.path.name)
    delimiter, names = _drawn(head) or ("", [])
    if not plain and not names and (turned := _turned(head)) is not None:
        return _by_metric(file, *turned)
    if plain:
        delimiter, names = _delimiter(head[0]), plain
    tables = [_Table(Rows(replace(file, shown=f"{file.source} ({run})") if run else file, FORMAT), columns)
              for run, columns in _columns(file.path.name, names).items()]  # fmt: skip
    below = False
    for line, text in file.lines():
        cells = split(text.replace(",", ".") if below and delimiter == ";" else text, delimiter)
        if cells == names or [_INDEX, *cells] == names:
            below = True
        elif below and len(cells) == len(names) and not _RULE.fullmatch(text):
            for table in tables:
                table.add(cells, line)
        elif below and plain and text.strip():
            tables[0].rows.unreadable(line)
    if (
        names_runs(names)
        and len(tables) == 1
        and tables[0].rows.comes_again
        and len(parts := runs_of(_rows(file, delimiter, names))) > 1
    ):
        return [_run(replace(file, shown=f"{file.source} ({name})"), part) for name, part in parts.items()]
    return [run for table in tables for run in table.rows.runs()]


class _Table:
    """The rows of one run and its columns by place; once they are known, full rows are read without a mapping each."""

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
    """The rows of a table as they stand."""
    table = [split(text, delimiter) for _, text in file.lines()]
    return [dict(zip(names, cells, strict=True)) for cells in table if len(cells) == len(names) and cells != names]


def _run(file: Input, part: Sequence[Mapping[str, str]]) -> Run:
    rows = Rows(file, FORMAT)
    for row in part:
        rows.add({name: cell for name, cell in row.items() if cell})
    return rows.run()


def _lines(head: Head) -> list[str]:
    """The lines that are neither empty nor a comment or a headline."""
    return [line for line in head.lines if line.strip() and not line.startswith("#")]


def _delimiter(line: str) -> str:
    counts = {mark: line.count(mark) for mark in _DELIMITERS}
    best = max(_DELIMITERS, key=lambda mark: counts[mark])
    return best if counts[best] else ""


def _header(lines: list[str], file: str) -> list[str]:
    """The names in the first line of a file that is one table; empty if it is none."""
    delimiter = _delimiter(lines[0]) if len(lines) > 1 else ""
    names = split(lines[0], delimiter) if delimiter else []
    if not names or any(number(name) is not None for name in names):
        return []
    if not any(map(_counts, names)) and any(map(_worded, split(lines[1], delimiter))):
        return []  # a table of models or of data sets: none of its rows is a step
    keys = [key for columns in _columns(file, names).values() for key in columns.values()]
    known = [key for key in keys if _counts(key) or resolve(key)]
    long = any(map(_counts, names)) and melted(dict.fromkeys(names, "x")).keys() != set(names)
    return names if len(known) > 1 or long or [name.lower() for name in names] == _SCALAR else []


def _drawn(lines: list[str]) -> tuple[str, list[str]] | None:
    """What parts the columns of a table within a text, and their names, of which one counts and one is a metric."""
    rows = [line for line in lines[:_DEEPEST] if not _RULE.fullmatch(line)]
    for above, below in pairwise(rows):
        for delimiter in _DRAWN:
            cells = split(below, delimiter)
            if len(cells) < 2 or number(cells[0]) is None:
                continue
            names = _below_names(split(above, delimiter), cells, delimiter)
            if len(names) != len(cells):
                continue
            numbers = sum(number(cell) is not None for cell in cells)
            if (
                numbers > len(cells) / 2
                and any(map(_counts, names))
                and any(resolve(n) for n in names if not _counts(n))
            ):
                return delimiter, names
    return None


def _below_names(names: list[str], cells: list[str], delimiter: str) -> list[str]:
    """The names of the cells below them; pandas prints an index before each row, and no name above it."""
    indexed = delimiter.isspace() and len(cells) == len(names) + 1 and cells[0].isdigit()
    return [_INDEX, *names] if indexed else names


def _turned(lines: list[str]) -> tuple[str, list[str]] | None:
    """What parts the columns of a table of which each is a step and each row a metric, and its first row."""
    rows = [line for line in lines[:_DEEPEST] if not _RULE.fullmatch(line)]
    for above, below in pairwise(rows):
        for delimiter in _DRAWN:
            names, cells = split(above, delimiter), split(below, delimiter)
            if len(names) < 3 or len(cells) != len(names) or not _STEPS.search(f"{names[0]} {names[1]}"):
                continue
            steps = [_step(name) for name in names[1:]]
            if all(step < later for step, later in pairwise(steps)) and resolve(_bare(cells[0])):
                return delimiter, names
    return None


def _by_metric(file: Input, delimiter: str, names: list[str]) -> list[Run]:
    """The run of a table with a row for each metric."""
    rows = Rows(file, FORMAT)
    metrics: dict[str, list[str]] = {}
    at = 0
    for line, text in file.lines():
        cells = split(text, delimiter)
        if cells == names:
            at = at or line
        elif at and len(cells) == len(names) and not _RULE.fullmatch(text):
            metrics.setdefault(_bare(cells[0]), cells[1:])
    for place, name in enumerate(names[1:]):
        rows.add({metric: _bare(cells[place]) for metric, cells in metrics.items()}, at, _step(name))
    return rows.runs()


def _step(name: str) -> float:
    """The step that a column is named after; NaN where it is none."""
    found = _OF_A_STEP.fullmatch(_bare(name))
    return float(found[1]) if found is not None else math.nan


def _bare(cell: str) -> str:
    """A cell without the marks of Markdown."""
    return cell.strip("*` ")


def _worded(cell: str) -> bool:
    """Whether a cell holds a word rather than a number, nothing or a time."""
    return bool(cell) and number(cell) is None and not cell[0].isdigit() and cell.lower() not in ("nan", "none", "null")


def _counts(name: str) -> bool:
    return name.lower().replace(" ", "_") in (*STEP_KEYS, "epoch", "episode")


def _columns(file: str, names: list[str]) -> dict[str, dict[int, str]]:
    """The names of the columns of every run in the table, by place; what they do not say the name of the file does."""
    if [name.lower() for name in names] == _SCALAR:
        tag = _TAG.search(file)
        return {"": {1: names[1], 2: tag[1] if tag else names[2]}}
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
    """The cells of one line, none where its quotes are torn."""
    if delimiter == "|":
        return [cell.strip() for cell in line.translate(_BARS).strip().strip("|").split("|")]
    if delimiter.isspace() and delimiter != "\t":
        return line.split() if delimiter == " " else _SPACES.split(line.strip())
    if '"' not in line:
        return [cell.strip() for cell in line.removeprefix("\ufeff").split(delimiter)]
    try:
        rows: Iterator[list[str]] = csv.reader([line], delimiter=delimiter)
        return [cell.strip() for cell in next(rows, [])]
    except csv.Error:
        return []
