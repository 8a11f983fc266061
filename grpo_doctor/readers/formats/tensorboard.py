"""Reads TensorBoard event files without TensorBoard: scalars of both file versions, and settings that are logged as
text."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from typing import Any, BinaryIO

from ...run import Run
from ..input import Head, Input, NotRead
from ..protobuf import WireError, fields, text, varint
from ..row_buffer import Rows
from ..steps import gathered
from ..values import loaded

FORMAT = "tensorboard"
_LARGEST = 1 << 26
_TYPES = {1: "<f", 2: "<d", 3: "<i", 9: "<q"}
"""The struct format of each TensorFlow data type of a scalar."""
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
    names: dict[bytes, str] = {}
    for record in _records(stream, rows):
        step, summaries = 0, []
        try:
            for number, value in fields(record):
                if number == 2 and isinstance(value, int):
                    step = value if value < 1 << 63 else value - (1 << 64)
                elif number == 5 and isinstance(value, bytes):
                    summaries.append(value)
            for summary in summaries:
                for number, value in fields(summary):
                    if number == 1 and isinstance(value, bytes):
                        tag, scalar, words = _value(value)
                        if scalar is not None:
                            name = names.get(tag) or names.setdefault(tag, text(tag))
                            yield step, name, scalar
                        elif words:
                            _settings(rows, words)
        except WireError:
            rows.unreadable(len(rows) + 1)


def _value(data: bytes) -> tuple[bytes, float | None, str]:
    """Return the tag, the number and the text of a summary value."""
    tag, scalar, words = b"", None, ""
    for number, value in fields(data):
        if number == 1 and isinstance(value, bytes):
            tag = value
        elif number == 2 and isinstance(value, float):
            scalar = value
        elif number == 8 and isinstance(value, bytes):
            scalar, words = _tensor(value)
    return tag, scalar, words


def _tensor(data: bytes) -> tuple[float | None, str]:
    """Return the scalar or the text of a tensor."""
    kind, words = 0, ""
    for number, value in fields(data):
        if number == 1 and isinstance(value, int):
            kind = value
        elif number == 4 and isinstance(value, bytes) and kind in _TYPES:
            code = _TYPES[kind]
            if len(value) == struct.calcsize(code):
                return float(struct.unpack(code, value)[0]), ""
        elif number in (5, 6) and not isinstance(value, int):
            figure = _packed(value, "<f" if number == 5 else "<d")
            if figure is not None:
                return figure, ""
        elif number in (7, 10):
            return float(value if isinstance(value, int) else varint(bytes(value), 0)[0]), ""  # type: ignore[arg-type]
        elif number == 8 and isinstance(value, bytes):
            words = text(value)
    return None, words


def _packed(value: bytes | float, code: str) -> float | None:
    if isinstance(value, float):
        return value
    return float(struct.unpack(code, value)[0]) if len(value) == struct.calcsize(code) else None


def _settings(rows: Rows, words: str) -> None:
    """Read the arguments that Transformers writes as JSON in a text summary."""
    start = words.find("{")
    config: Any = loaded(words[start : words.rfind("}") + 1]) if start >= 0 else math.nan
    if isinstance(config, dict):
        rows.declare(config)
