"""Finds tables that are drawn within a text: their start, their cells, and their column names.

Markdown tables, grids, boxes, and columns separated by spaces, as printed by pandas, are supported. Cells are read
without Markdown marks, and ``~0.5`` is read as 0.5. The first cell may contain the step in the form ``step 40``,
``31-40`` or ``2k``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, pairwise

from ..aliases import STEP_KEYS, resolve
from ..values import number

PARTED = ("|", "  ", " ")
"""Separators between the cells of a drawn table: bars, two or more spaces, and single spaces."""
_DELIMITERS = ("|", "\t", "  ", " ", ",")
BARS = "|│┃║"
"""Characters that are bars. The bars of a header are often thicker."""
_BARS = str.maketrans(BARS, "||||")
_MARKS = "*`~≈ "
INDEX = ""
"""The name of an index column, which pandas prints without a header."""
RULE = re.compile(r"[-=+|: ─-╿]+")
_DEEPEST = 300
"""Number of lines at the start of a text that are searched for the header of a table."""
_SPACES = re.compile(r"\s{2,}")
_COUNTER = re.compile(r"(?:global |train |training )?(?:step|iter|iteration|update|checkpoint|ckpt)s?", re.IGNORECASE)
"""Names of a step column that are not among the known names."""
_STEP = re.compile(
    rf"(?:{_COUNTER.pattern}[ _-]?)?[@#]?(?:\d{{1,12}} ?(?:-|–|…|\.\.|to) ?)?(\d{{1,12}})(k?)", re.IGNORECASE
)


def found(lines: Sequence[str], mapped: Collection[str] = ()) -> tuple[str, list[str]] | None:
    """Return the separator and the header of a table within a text; None if there is no table. One name in the header
    must be a counter and another a metric, or a name must be mapped."""
    rows = [line for line in lines[:_DEEPEST] if not RULE.fullmatch(line)]
    for above, below in pairwise(rows):
        for delimiter in _DELIMITERS:
            cells = _cells(below, delimiter)
            if len(cells) < 2 or (number(cells[0]) is None and _step(cells[0]) is None):
                continue
            names = _cells(above, delimiter)
            if delimiter.isspace() and len(above.split()) == len(cells):
                names = above.split()  # single spaces between the names of narrow columns
            elif delimiter.isspace() and len(cells) == len(names) + 1 and cells[0].isdigit():
                names = [INDEX, *names]
            if len(names) == len(cells) and _heads(names, cells, mapped):
                return delimiter, names
    return None


def _heads(names: list[str], cells: list[str], mapped: Collection[str]) -> bool:
    """Return whether names are the header of numbers: one name counts the rows, and another is a metric."""
    numbers = sum(number(cell) is not None for cell in cells[1:]) + 1
    return numbers > len(cells) / 2 and _tells(names, mapped)


def _tells(names: list[str], mapped: Collection[str]) -> bool:
    """Return whether one name counts the rows and another is a metric, or any name is mapped."""
    counts = [name == INDEX or counts_rows(name) for name in titles(names)]
    metrics = [name for name, of_rows in zip(names, counts, strict=True) if not of_rows and resolve(name)]
    return len(names) > 1 and ((any(counts) and bool(metrics)) or not set(names).isdisjoint(mapped))


def rows(
    lines: Iterable[tuple[int, str, list[str]]], delimiter: str, names: list[str], mapped: Collection[str] = ()
) -> Iterator[tuple[list[str], int, list[str]]]:
    """Yield the header, the line number and the cells of each row of the table whose columns are ``names``, and of
    other tables whose columns are separated by ``|``.

    A row of words followed by a horizontal rule is the header of another table. The rows below that header do not
    belong to the table above.
    """
    above: list[str] = []
    held: tuple[int, list[str]] | None = None
    for line, text, cells in chain(lines, [(0, "", [""])]):
        if RULE.fullmatch(text):
            if held is not None and delimiter == "|" and all(number(cell) is None for cell in held[1]):
                above, held = held[1] if _tells(held[1], mapped) else [], None
            continue
        if held is not None and len(held[1]) == len(above) > 0:
            yield above, *held
        headline = names in (cells, [INDEX, *cells]) or (delimiter.isspace() and text.split() == names)
        above, held = (names, None) if headline else (above, (line, cells))


def titles(names: list[str], row: Sequence[str] = ()) -> list[str]:
    """Return the column names. The first column is named ``step`` if its name is another word for a step, or is missing
    and its cells are like ``step 40``."""
    unnamed = names[0] == INDEX and bool(row) and _COUNTER.match(row[0]) is not None and _step(row[0]) is not None
    return ["step", *names[1:]] if unnamed or (_COUNTER.fullmatch(names[0]) and not counts_rows(names[0])) else names


def counted(cells: list[str]) -> list[str]:
    """Return the cells of a row, with the step in the first cell as a number."""
    step = None if number(cells[0]) is not None else _step(cells[0])
    return cells if step is None else [f"{step:.0f}", *cells[1:]]


def split(line: str, delimiter: str) -> list[str]:
    """Return the cells of one line, without Markdown marks."""
    if delimiter == "|":
        text = line.translate(_BARS).strip()
        inner = text[1:].removesuffix("|") if text.startswith("|") else text
        return [cell.strip(_MARKS) for cell in inner.split("|")]
    return line.split() if delimiter == " " else _SPACES.split(line.strip())


def _cells(line: str, delimiter: str) -> list[str]:
    """Return the cells of a line that may be a row of a table."""
    if delimiter in PARTED:
        return split(line, delimiter)
    return [cell.strip() for cell in line.split(delimiter)]


def _step(cell: str) -> float | None:
    """Return the step in a cell, or the last step of a range; None if there is no step."""
    match = _STEP.fullmatch(cell)
    return None if match is None else float(match[1]) * (1000 if match[2] else 1)


def counts_rows(name: str) -> bool:
    """Return whether a column with this name counts the rows."""
    return name.lower().replace(" ", "_") in (*STEP_KEYS, "epoch", "episode")
