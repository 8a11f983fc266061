"""Tables that are drawn for readers, within any text: where one begins, its cells, and what its columns are called.

Bars of Markdown, grids, boxes, columns of spaces as pandas prints them. A table may lie on its side, with a row for
each metric and a column for each step. Cells are read without the marks of Markdown, and ``~0.5`` as 0.5; the first one
may say its step as ``step 40``, ``31-40`` or ``2k``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise

from ...run import Run
from ..aliases import STEP_KEYS, resolve
from ..input import Input
from ..row_buffer import Rows
from ..values import number

PARTED = ("|", "  ", " ")
"""What parts the cells of a drawn table: bars, two spaces or more, spaces."""
_DELIMITERS = ("|", "\t", "  ", " ", ",")
_BARS = str.maketrans("│┃║", "|||")
"""How bars are drawn, those of the headline often thicker than those below it."""
_MARKS = "*`~≈ "
INDEX = ""
"""The name of an index, which pandas prints before each row and puts no name above."""
RULE = re.compile(r"[-=+|: ─-╿]+")
_DEEPEST = 300
"""Lines above a drawn table at most."""
_ROW = re.compile(r"[\s|]{0,40}\d{1,9}\s*\|")
"""How a row between bars begins that a number counts."""
_SPACES = re.compile(r"\s{2,}")
_COUNTER = re.compile(r"(?:global |train |training )?(?:step|iter|iteration|update|checkpoint|ckpt)s?", re.IGNORECASE)
"""What the column of the steps is called, where it is none of the names by which trainers call it."""
_STEP = re.compile(
    rf"(?:{_COUNTER.pattern}[ _-]?)?[@#]?(?:\d{{1,12}} ?(?:-|–|…|\.\.|to) ?)?(\d{{1,12}})(k?)", re.IGNORECASE
)


def found(lines: Sequence[str]) -> tuple[str, list[str]] | None:
    """What parts the columns of a table within a text, and its headline: one cell counts and one is a metric."""
    rows = [line for line in lines[:_DEEPEST] if not RULE.fullmatch(line)]
    for above, below in pairwise(rows):
        for delimiter in _DELIMITERS:
            cells = _cells(below, delimiter)
            if len(cells) < 2 or (number(cells[0]) is None and _step(cells[0]) is None):
                continue
            names = _cells(above, delimiter)
            if delimiter.isspace() and len(above.split()) == len(cells):
                names = above.split()  # of columns so narrow that one space parts their names
            elif delimiter.isspace() and len(cells) == len(names) + 1 and cells[0].isdigit():
                names = [INDEX, *names]
            if len(names) == len(cells) and _heads(names, cells):
                return delimiter, names
    return None


def _heads(names: list[str], cells: list[str]) -> bool:
    """Whether names stand above numbers, one of which counts the rows and one is a metric."""
    numbers = sum(number(cell) is not None for cell in cells[1:]) + 1
    return numbers > len(cells) / 2 and _tells(names)


def _tells(names: list[str]) -> bool:
    """Whether one of some names counts the rows and another is a metric."""
    counts = [name == INDEX or _counts(name) for name in titles(names)]
    return (
        len(names) > 1
        and any(counts)
        and any(resolve(name) for name, of_rows in zip(names, counts, strict=True) if not of_rows)
    )


def rows(
    lines: Iterable[tuple[int, str, list[str]]], delimiter: str, names: list[str]
) -> Iterator[tuple[list[str], int, list[str]]]:
    """Headline, line and cells of each row of the table with these names, and of every other one between bars.

    A row of words with a rule below it is another headline, and what stands below that is none of the table above.
    """
    above: list[str] = []
    held: tuple[int, list[str]] | None = None
    for line, text, cells in chain(lines, [(0, "", [""])]):
        if RULE.fullmatch(text):
            if held is not None and delimiter == "|" and all(number(cell) is None for cell in held[1]):
                above, held = held[1] if _tells(held[1]) else [], None
            continue
        if held is not None and len(held[1]) == len(above) > 0:
            yield above, *held
        headline = names in (cells, [INDEX, *cells]) or (delimiter.isspace() and text.split() == names)
        above, held = (names, None) if headline else (above, (line, cells))


class Below:
    """A table between bars that stands below other output: its headline, where it is, and how many rows it has."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.line = self.rows = 0
        self._above = ""

    def see(self, line: int, text: str) -> None:
        if "|" not in text or RULE.fullmatch(text):
            return
        if not _ROW.match(text):
            self._above = text
        elif self.names:
            self.rows += len(split(text, "|")) == len(self.names)
        elif (head := found([self._above, text])) is not None and head[0] == "|":
            self.names, self.line, self.rows = head[1], line, 1


def titles(names: list[str], row: Sequence[str] = ()) -> list[str]:
    """The names of the columns, of which the first may count the rows under a name that trainers do not use, or under
    none, where the cells of a row say ``step 40`` themselves."""
    unnamed = names[0] == INDEX and bool(row) and _COUNTER.match(row[0]) is not None and _step(row[0]) is not None
    return ["step", *names[1:]] if unnamed or (_COUNTER.fullmatch(names[0]) and not _counts(names[0])) else names


def counted(cells: list[str]) -> list[str]:
    """The cells of a row, with the step of the first as a number."""
    step = None if number(cells[0]) is not None else _step(cells[0])
    return cells if step is None else [f"{step:.0f}", *cells[1:]]


def turned(lines: Sequence[str]) -> tuple[str, list[str]] | None:
    """What parts the columns of a table of which each is a step and each row a metric, and its first row."""
    rows = [line for line in lines[:_DEEPEST] if not RULE.fullmatch(line)]
    for above, below in pairwise(rows):
        for delimiter in _DELIMITERS:
            names, cells = _cells(above, delimiter), _cells(below, delimiter)
            if len(names) < 3 or len(cells) != len(names) or not any(map(_COUNTER.match, names[:2])):
                continue
            steps = [_step(name) for name in names[1:]]
            rising = all(one is not None and two is not None and one < two for one, two in pairwise(steps))
            if rising and resolve(cells[0]):
                return delimiter, names
    return None


def by_metric(file: Input, format: str) -> list[Run]:
    """The run of a table with a row for each metric."""
    at = turned(file.head().lines)
    rows = Rows(file, format)
    if at is None:
        return rows.runs()
    delimiter, names = at
    metrics: dict[str, list[str]] = {}
    below = 0
    for line, text in file.lines():
        cells = _cells(text, delimiter)
        if cells == names:
            below = below or line
        elif below and len(cells) == len(names) and not RULE.fullmatch(text):
            metrics.setdefault(cells[0], cells[1:])
    for place, name in enumerate(names[1:]):
        rows.add({metric: cells[place] for metric, cells in metrics.items()}, below, _step(name))
    return rows.runs()


def split(line: str, delimiter: str) -> list[str]:
    """The cells of one line, without the marks of Markdown."""
    if delimiter == "|":
        text = line.translate(_BARS).strip()
        inner = text[1:].removesuffix("|") if text.startswith("|") else text
        return [cell.strip(_MARKS) for cell in inner.split("|")]
    return line.split() if delimiter == " " else _SPACES.split(line.strip())


def _cells(line: str, delimiter: str) -> list[str]:
    """The cells of one line of which nobody knows yet whether it is one of a table."""
    if delimiter in PARTED:
        return split(line, delimiter)
    return [cell.strip() for cell in line.split(delimiter)]


def _step(cell: str) -> float | None:
    """The step that a cell names; of a range the last; None where it is none."""
    match = _STEP.fullmatch(cell)
    return None if match is None else float(match[1]) * (1000 if match[2] else 1)


def _counts(name: str) -> bool:
    return name.lower().replace(" ", "_") in (*STEP_KEYS, "epoch", "episode")
