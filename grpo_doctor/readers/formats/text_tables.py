"""Finds tables that are drawn for people within any text: their start, their cells, and their column names.

Supported are Markdown bars, grids, boxes, and columns of spaces as pandas prints them. Cells are read without Markdown
marks, and ``~0.5`` is read as 0.5. The first cell may contain its step as ``step 40``, ``31-40`` or ``2k``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, pairwise

from ..aliases import STEP_KEYS, resolve
from ..values import number

PARTED = ("|", "  ", " ")
"""Separators of the cells of a drawn table: bars, two or more spaces, spaces."""
_DELIMITERS = ("|", "\t", "  ", " ", ",")
BARS = "|│┃║"
"""Bar characters; header bars are often thicker."""
_BARS = str.maketrans(BARS, "||||")
_MARKS = "*`~≈ "
INDEX = ""
"""The name of an index column, which pandas prints without a header."""
RULE = re.compile(r"[-=+|: ─-╿]+")
_DEEPEST = 300
"""Maximum number of lines above a drawn table."""
_SPACES = re.compile(r"\s{2,}")
_COUNTER = re.compile(r"(?:global |train |training )?(?:step|iter|iteration|update|checkpoint|ckpt)s?", re.IGNORECASE)
"""Name of the step column if it has no known name."""
_STEP = re.compile(
    rf"(?:{_COUNTER.pattern}[ _-]?)?[@#]?(?:\d{{1,12}} ?(?:-|–|…|\.\.|to) ?)?(\d{{1,12}})(k?)", re.IGNORECASE
)


def found(lines: Sequence[str], mapped: Collection[str] = ()) -> tuple[str, list[str]] | None:
    """Return the separator of a table inside a text, and its header. One cell of the header must be a counter, and one
    must be a metric or mapped."""
    rows = [line for line in lines[:_DEEPEST] if not RULE.fullmatch(line)]
    for above, below in pairwise(rows):
        for delimiter in _DELIMITERS:
            cells = _cells(below, delimiter)
            if len(cells) < 2 or (number(cells[0]) is None and _step(cells[0]) is None):
                continue
            names = _cells(above, delimiter)
            if delimiter.isspace() and len(above.split()) == len(cells):
                names = above.split()  # narrow columns whose names are separated by one space
            elif delimiter.isspace() and len(cells) == len(names) + 1 and cells[0].isdigit():
                names = [INDEX, *names]
            if len(names) == len(cells) and _heads(names, cells, mapped):
                return delimiter, names
    return None


def _heads(names: list[str], cells: list[str], mapped: Collection[str]) -> bool:
    """Return whether names are above numbers, where one name counts the rows and one is a metric."""
    numbers = sum(number(cell) is not None for cell in cells[1:]) + 1
    return numbers > len(cells) / 2 and _tells(names, mapped)


def _tells(names: list[str], mapped: Collection[str]) -> bool:
    """Return whether one of the names counts the rows and another is a metric, or one is mapped."""
    counts = [name == INDEX or _counts(name) for name in titles(names)]
    metrics = [name for name, of_rows in zip(names, counts, strict=True) if not of_rows and resolve(name)]
    return len(names) > 1 and ((any(counts) and bool(metrics)) or not set(names).isdisjoint(mapped))


def rows(
    lines: Iterable[tuple[int, str, list[str]]], delimiter: str, names: list[str], mapped: Collection[str] = ()
) -> Iterator[tuple[list[str], int, list[str]]]:
    """Yield the header, line and cells of each row of the table with these names, and of every other table between
    bars.

    A row of words followed by a rule is another header; the rows below it do not belong to the table above.
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
    """Return the column names. The first column may count the rows with an unknown or missing name if the cells of a
    row contain ``step 40``."""
    unnamed = names[0] == INDEX and bool(row) and _COUNTER.match(row[0]) is not None and _step(row[0]) is not None
    return ["step", *names[1:]] if unnamed or (_COUNTER.fullmatch(names[0]) and not _counts(names[0])) else names


def counted(cells: list[str]) -> list[str]:
    """Return the cells of a row, with the step of the first as a number."""
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
    """Return the cells of a line that may or may not be a table row."""
    if delimiter in PARTED:
        return split(line, delimiter)
    return [cell.strip() for cell in line.split(delimiter)]


def _step(cell: str) -> float | None:
    """Return the step in a cell (the last one of a range), or None if there is none."""
    match = _STEP.fullmatch(cell)
    return None if match is None else float(match[1]) * (1000 if match[2] else 1)


def _counts(name: str) -> bool:
    return name.lower().replace(" ", "_") in (*STEP_KEYS, "epoch", "episode")
