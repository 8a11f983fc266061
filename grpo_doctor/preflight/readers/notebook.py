"""Reads the code cells of a Jupyter notebook: Python, and the commands after ``!``, ``%%bash`` and ``%%writefile``."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from ...readers import ReadError
from ..launch import LARGEST_SCRIPT, Command, Launch
from .modules import magics, plain
from .python import read_modules

CELLS = 2_000
"""Maximum number of code cells."""
_SHELL = re.compile(r"%%(?:bash|sh|shell|script\s+(?:ba)?sh)\b.*\n")
_OTHER = re.compile(r"%%(?!time|timeit|capture|prun|wandb)")
"""Matches the first line of a cell in another language."""
_WRITES = re.compile(r"%%(?:writefile|file)\s+(?:-a\s+)?(\S+).*\n")


def read_notebook(text: str, path: Path | None = None) -> tuple[list[Launch], list[Command], dict[str, str]]:
    """Return a launch for every configuration: in the cells themselves, in the commands of the cells, and in the files
    that the cells write.

    Lines are counted across the code cells. Raises `ReadError`.
    """
    try:
        cells = json.loads(text)["cells"]
        sources = [_source(cell) for cell in cells if cell.get("cell_type") == "code"]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ReadError(f"not a notebook: {' '.join(str(error).split())}") from None
    if sum(map(len, sources)) > LARGEST_SCRIPT or len(sources) > CELLS:
        raise ReadError(f"more than {LARGEST_SCRIPT >> 10} KB or {CELLS} code cells, so not a configuration")
    pieces: list[tuple[str, int]] = []
    commands: list[Command] = []
    texts: list[tuple[str, int]] = []
    written: dict[str, str] = {}
    before = 0
    for source in sources:
        if (shell := _SHELL.match(source.lstrip())) is not None:
            commands.append(Command(source.lstrip()[shell.end() :], before + 1))
        elif (writes := _WRITES.match(source.lstrip())) is not None:
            body = source.lstrip()[writes.end() :]
            written[writes[1]] = body
            if writes[1].endswith(".py"):
                pieces.append((plain(body), before + 1))
        elif not _OTHER.match(source.lstrip()):
            pieces.append((plain(source), before))
            texts += [(command, before + line) for command, line in magics(source)]
        before += source.count("\n") + 1
    launches, started = read_modules(pieces, path, texts) if pieces else ([], [])
    for launch in launches if "notebook_launcher" not in text else ():
        launch.add("num_processes", 1, 0)
    return launches, commands + started, written


def _source(cell: dict[str, Any]) -> str:
    return "".join(cell.get("source", ""))
