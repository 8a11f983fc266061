"""Reads TensorBoard event files without TensorBoard: scalars of both file versions, and settings that are logged as
text."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from typing import Any, BinaryIO

from ...run import Run
from ..input import Head, Input, NotRead
from ..protobuf import WireError, fields, messages, text, varint
from ..row_buffer import Rows
from ..steps import gathered
from ..values import loaded

FORMAT = "tensorboard"
_LARGEST = 1 << 26
_TYPES = {1: "<f", 2: "<d", 3: "<i", 9: "<q"}
"""The struct format of each TensorFlow data type of a scalar."""
_VALUES = {5: "<f", 6: "<d"}
"""The struct format of each list of numbers in a tensor, by field number."""
_HEADER, _FOOTER = 12, 4


def sniff(head: Head) -> int:
    return 3 if b"brain.Event:" in head.raw[:64] else 0


def read(file: Input) -> list[Run]:
    rows = Rows(file, FORMAT)
    with file.open() as stream:
        for step, row in gathered(_scalars(stream, rows)):
            rows.add(row, step=step)
    return [rows.run()]


def _records(stream: BinaryIO, rows: Rows) -> Iterator[bytes]:
    while header := stream.read(_HEADER):
        length = struct.unpack_from("<Q", header)[0] if len(header) == _HEADER else _LARGEST
        data = stream.read(length + _FOOTER) if length < _LARGEST else b""
        if len(data) < length + _FOOTER:
            rows.notes.append(NotRead("the last event is incomplete and was skipped (the writer was interrupted)"))
            return
        yield data[:-_FOOTER]


def _scalars(stream: BinaryIO, rows: Rows) -> Iterator[tuple[int, str, float]]:
    for record in _records(stream, rows):
        try:
            step = dict(fields(record)).get(2, 0)
            for data in messages(record, 5, 1):
                tag, scalar, words = _value(data)
                if scalar is not None:
                    yield int(step) - (int(step) >> 63 << 64), tag, scalar
                elif words:
                    _settings(rows, words)
        except WireError:
            rows.unreadable(len(rows) + 1)


def _value(data: bytes) -> tuple[str, float | None, str]:
    """Return the tag, the number and the text of a summary value."""
    parts = dict(fields(data))
    scalar, tensor, tag = parts.get(2), parts.get(8), text(parts.get(1, b""))
    if isinstance(tensor, bytes):
        return tag, *_tensor(tensor)
    return tag, scalar if isinstance(scalar, float) else None, ""


def _tensor(data: bytes) -> tuple[float | None, str]:
    """Return the scalar or the text of a tensor."""
    kind, words = 0, ""
    for number, value in fields(data):
        if number == 1 and isinstance(value, int):
            kind = value
        elif code := _TYPES.get(kind) if number == 4 else _VALUES.get(number):
            if (figure := _packed(value, code)) is not None:
                return figure, ""
        elif number in (7, 10):
            return float(varint(value, 0)[0] if isinstance(value, bytes) else value), ""
        elif number == 8 and isinstance(value, bytes):
            words = text(value)
    return None, words


def _packed(value: bytes | float, code: str) -> float | None:
    """Return a number that is stored as a fixed width, or as the bytes of a list of one number."""
    if not isinstance(value, bytes):
        return value if isinstance(value, float) else None
    return float(struct.unpack(code, value)[0]) if len(value) == struct.calcsize(code) else None


def _settings(rows: Rows, words: str) -> None:
    """Read the arguments that Transformers writes as JSON in a text summary."""
    start = words.find("{")
    config: Any = loaded(words[start : words.rfind("}") + 1]) if start >= 0 else math.nan
    if isinstance(config, dict):
        rows.declare(config)
