"""The code cells of a Jupyter notebook, read as Python; lines that start with ``!`` or ``%`` are left out."""

from __future__ import annotations

import json
from typing import Any

from ...sources import ReadError
from ..entry import LARGEST_SCRIPT, Launch
from .modules import plain
from .python import read_modules

CELLS = 2_000
"""Cells of code at most."""


def read_notebook(text: str) -> list[Launch]:
    """A launch for every configuration in the cells; lines are counted over the code cells. Raises `ReadError`."""
    try:
        cells = json.loads(text)["cells"]
        sources = [_source(cell) for cell in cells if cell.get("cell_type") == "code"]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ReadError(f"not a notebook: {' '.join(str(error).split())}") from None
    if sum(map(len, sources)) > LARGEST_SCRIPT or len(sources) > CELLS:
        raise ReadError(f"more than {LARGEST_SCRIPT >> 10} KB or {CELLS} cells of code, so no configuration")
    pieces, before = [], 0
    for source in sources:
        if not source.lstrip().startswith("%%"):
            pieces.append((source, before))
        before += source.count("\n") + 1
    return read_modules(pieces) if pieces else []


def _source(cell: dict[str, Any]) -> str:
    return plain("".join(cell.get("source", "")))
