"""Text for a terminal: styles, titles, items, names with line breaks in narrow columns, and series as block
characters."""

from __future__ import annotations

import re
from io import StringIO
from typing import NamedTuple

import numpy as np
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table as Grid
from rich.text import Text

from .model import Options

VERDICT = {"failing": "bold white on red", "suspect": "bold black on yellow", "healthy": "bold white on green"}
"""Style of each verdict; verdicts without an entry have no style."""
LEVEL = {"critical": "bold red", "error": "red", "warning": "yellow", "info": "cyan"}
"""Style of each severity."""
PIECE = re.compile(r"_*(?:[^\s/_-]|-(?![^\W\d]))*(?:\s+|/+|_+\s*|-+(?=[^\W\d])|$)")
"""Matches a part of a name, after which a line may end. The sign of a number and underscores before a name belong to
the part."""

BARS = "▁▂▃▄▅▆▇█"


class Screen(Console):
    """A console that stores the printed text."""

    def __init__(self, options: Options, least: int = 0) -> None:
        self.kept = StringIO()
        width, color = max(options.width, least), options.color
        super().__init__(file=self.kept, width=width, force_terminal=color, no_color=not color, highlight=False)

    @property
    def text(self) -> str:
        """Return the printed text, without spaces at the ends of lines."""
        return "\n".join(line.rstrip() for line in self.kept.getvalue().splitlines()).rstrip("\n")


def title(words: str) -> Text:
    """Return the title of a section, preceded by an empty line."""
    return Text(f"\n{words}", style="bold underline")


def bullet(words: str, style: str = "") -> Grid:
    """Return an item of a list, indented as a whole."""
    grid = Grid.grid(padding=(0, 1, 0, 0))
    grid.add_column(width=1)
    grid.add_column(ratio=1)
    grid.add_row("·", Text(words, style=style))
    return grid


class Name(NamedTuple):
    """Words that break across lines after a space, a slash, a hyphen or an underscore, but never inside a part."""

    words: str
    style: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = [""]
        for piece in PIECE.findall(self.words):
            if lines[-1] and cell_len(lines[-1] + piece.rstrip()) > options.max_width:
                lines.append("")
            lines[-1] += piece
        yield Text("\n".join(line.rstrip() for line in lines), self.style, overflow="fold")

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(self.least, cell_len(self.words)).with_maximum(options.max_width)

    @property
    def least(self) -> int:
        """Return the width of the longest part."""
        return max(cell_len(piece.rstrip()) for piece in PIECE.findall(self.words))


def sparkline(values: np.ndarray | None, width: int) -> str:
    """Draw a series with block characters. Each column is the mean of the same number of rows, scaled between the
    smallest and the largest mean; gaps stay blank."""
    if values is None or not len(values):
        return ""
    with np.errstate(all="ignore"):
        shown = np.where(np.isfinite(values), values, np.nan)
        parts = np.split(shown, range(size := rows_per_bar(len(shown), width), len(shown), size))
        means = np.array([part[~np.isnan(part)].mean() if (~np.isnan(part)).any() else np.nan for part in parts])
        low, high = np.fmin.reduce(means), np.fmax.reduce(means)
        heights = (means - low) / (high - low) * (len(BARS) - 1) if high > low else np.where(np.isnan(means), np.nan, 3)
    return "".join(BARS[round(h)] if h == h else " " for h in heights.tolist())


def rows_per_bar(rows: int, width: int) -> int:
    """Return the number of rows per column of a sparkline."""
    return -(-rows // width)
