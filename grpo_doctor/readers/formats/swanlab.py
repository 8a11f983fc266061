"""Reads SwanLab's binary ``.swanlab`` file without SwanLab, and the settings from the same folder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from ...run import Run
from ..input import Head, Input
from ..protobuf import WireError, fields, messages, text
from ..row_buffer import Rows
from ..settings import declared
from ..steps import gathered
from .wandb import records

FORMAT = "swanlab"
_MAGIC = b":SWL"
_SCALAR = 13
_KEY, _STEP, _VALUE = 1, 2, 5
_DOUBLE = 1


def sniff(head: Head) -> int:
    return 3 if head.raw.startswith(_MAGIC) else 0


def read(file: Input) -> list[Run]:
    rows = Rows(file, FORMAT)
    with file.open() as stream:
        for step, row in gathered(_points(stream, rows)):
            rows.add(row, step=step)
    _settings(file, rows)
    return [rows.run()]


def _points(stream: BinaryIO, rows: Rows) -> Iterator[tuple[int, str, float]]:
    """Yield the step, key and value of every scalar in the file."""
    for record in records(stream, rows):
        try:
            yield from _scalars(record)
        except WireError:
            rows.unreadable(len(rows) + 1)


def _scalars(record: bytes) -> list[tuple[int, str, float]]:
    """Return the step, key and value of each scalar in a record. Raises `WireError`."""
    found = []
    for scalar in messages(record, _SCALAR):
        parts = dict(fields(scalar))
        held, step = parts.get(_VALUE), parts.get(_STEP, 0)
        value = dict(fields(held)).get(_DOUBLE, 0.0) if isinstance(held, bytes) else None
        if isinstance(value, float) and isinstance(step, int):
            found.append((step, text(parts.get(_KEY, b"")), value))
    return found


def _settings(file: Input, rows: Rows) -> None:
    """Read ``files/config.yaml``, which has the line ``value: …`` below the name of each setting."""
    path = file.path.parent / "files" / "config.yaml"
    if not path.is_file():
        return
    name = ""
    for _, line in Input(path).lines():
        key, colon, value = line.partition(":")
        if colon and not line.startswith(" "):
            name = key.strip()
        elif colon and key == "  value" and declared(name):
            rows.declare({name: value.strip().strip("'\"")})
