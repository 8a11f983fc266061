"""Text for a terminal that may break inside names: paths, settings and codes in narrow columns."""

from __future__ import annotations

import re
from typing import NamedTuple

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.text import Text

PIECE = re.compile(r"_*(?:[^\s/_-]|-(?![^\W\d]))*(?:\s+|/+|_+\s*|-+(?=[^\W\d])|$)")
"""A part of a name up to the place after which a line may end; the sign of a number, and underscores before a name,
belong to it."""


class Name(NamedTuple):
    """Words whose lines break after a space, a slash, a hyphen or an underscore, but never inside a part."""

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
