"""Reads MLflow's file store, which has one file per metric below ``metrics``, with lines ``timestamp value step``.

Any metric file represents the whole run: all files below the same ``metrics`` folder are read, with the parameters next
to the folder.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from ...run import Run
from ..input import Head, Input
from ..row_buffer import Rows
from ..walk import metrics

FORMAT = "mlflow"
_LINE = re.compile(r"\d{10,13} \S{1,40} -?\d{1,15}")


def sniff(head: Head) -> int:
    return 3 if head.lines and all(map(_LINE.fullmatch, head.lines[:3])) else 0


def read(file: Input) -> list[Run]:
    folder = next((parent for parent in file.path.parents if parent.name == "metrics"), None)
    rows = Rows(replace(file, shown=str(folder)) if folder else file, FORMAT)
    rows.add_points(_points(folder, metrics(folder) if folder else [file.path]))
    parameters = folder.parent / "params" if folder else None
    if parameters and parameters.is_dir():
        rows.declare({path.name: Input(path).text().strip() for path in metrics(parameters)})
    return [rows.run()]


def _points(folder: Path | None, files: Iterable[Path]) -> Iterator[tuple[str, int, str]]:
    """Yield the key, step and value of each point of the metrics."""
    for path in files:
        key = path.relative_to(folder).as_posix() if folder else path.name
        for _, text in Input(path).lines():
            if _LINE.fullmatch(text):
                _, value, at = text.split()
                yield key, int(at), value
