"""Reads the history, the settings and the end of the console of a run from the binary ``.wandb`` file of Weights &
Biases, without wandb."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator
from typing import BinaryIO

from ...run import Run
from ..endings import TAIL, conclude, ending
from ..input import Head, Input, NotRead
from ..protobuf import WireError, fields, messages, text
from ..row_buffer import Rows
from ..values import loaded

FORMAT = "wandb"
_MAGIC = b":W&B\xe1\xbe\x00"
_BLOCK = 1 << 15
_HEADER = 7
_HISTORY, _CONFIG, _CONSOLE, _RUN, _EXIT = 2, 5, 13, 17, 18
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4


def sniff(head: Head) -> int:
    return 3 if head.raw.startswith(_MAGIC[:4]) else 0


def read(file: Input) -> list[Run]:
    rows, printed, code = Rows(file, FORMAT), deque[tuple[int, str]](maxlen=TAIL), None
    with file.open() as stream:
        for record in records(stream, rows):
            try:
                for number, part in fields(record):
                    if not isinstance(part, bytes):
                        continue
                    if number == _CONSOLE:
                        printed += [(len(rows), text(line)) for line in messages(part, 3)]
                    elif number == _EXIT:
                        code = dict(fields(part)).get(1, 0)
                    else:
                        _take(rows, number, part)
            except WireError:
                rows.unreadable(len(rows) + 1)
    run = rows.run()
    # if the program failed, its last rows may be written after the traceback
    tail = "".join(part for count, part in printed if code or count == len(rows))
    if code != 0 and (end := ending(enumerate(tail.splitlines(), 1), 0)):
        end.line = 0  # these are line numbers of the console, not of the file
        conclude(run, end)
    return [run]


def _take(rows: Rows, number: int, part: bytes) -> None:
    """Take a part of a record: a row of the history, or settings."""
    if number == _HISTORY and (row := _items(part)):
        rows.add(row)
    elif number in (_CONFIG, _RUN):
        for config in (part,) if number == _CONFIG else messages(part, 4):
            rows.declare(_items(config))


def _items(data: bytes) -> dict[str, object]:
    """Return the items of a history or a configuration, whose values are stored as JSON."""
    found: dict[str, object] = {}
    for item in messages(data, 1):
        keys = [text(part) for field, part in fields(item) if field in (1, 2)]
        value = loaded(text(dict(fields(item)).get(16, b"")))
        held = isinstance(value, dict) and set(value) <= {"value", "desc"}
        found["/".join(filter(None, keys))] = value.get("value") if held else value
    return found


def records(stream: BinaryIO, rows: Rows) -> Iterator[bytes]:
    """Yield the records of a LevelDB log, which are stored in pieces in blocks of 32 KiB. The first block begins with
    the header of the file."""
    parts = bytearray()
    room = _BLOCK - len(stream.read(len(_MAGIC)))
    while True:
        if room < _HEADER:
            stream.read(room)
            room = _BLOCK
        header = stream.read(_HEADER)
        if len(header) != _HEADER:
            return
        _, length, kind = struct.unpack("<IHB", header)
        room -= _HEADER
        data = stream.read(min(length, room))
        if len(data) < length:
            if kind:
                rows.notes.append(NotRead("the last record is incomplete and was skipped (the writer was interrupted)"))
            return
        room -= length
        if kind in (_FULL, _FIRST):
            parts = bytearray(data)
        elif kind in (_MIDDLE, _LAST):
            parts += data
        if kind in (_FULL, _LAST):
            yield bytes(parts)
