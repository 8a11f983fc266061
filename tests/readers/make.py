"""Writes small logs of each format with the same numbers, so that a test reads back exactly what was written."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from grpo_doctor.readers import read
from grpo_doctor.run import Run


def run_of(folder: Path, name: str, content: str | bytes) -> Run:
    """The one run of a file with this content."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    (run,) = read(path)
    return run


def known(run: Run) -> dict[str, list[float | None]]:
    """Columns of numbers with None for unknown, and the text NaN where a NaN of a core field was recorded."""
    recorded = {(row, e.message.split()[0]) for row, events in run.events.items() for e in events if e.kind == "nan"}
    return {
        name: [
            (math.inf if value > 0 else -math.inf) if math.isinf(value) else
            "NaN" if (row, name) in recorded else None if math.isnan(value) else value  # type: ignore[misc]
            for row, value in enumerate(column.tolist())
        ]
        for name, column in run.columns.items()
        if column.dtype != object
    }  # fmt: skip


def varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def message(number: int, body: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(body)) + body


def tfevents(rows: Iterable[tuple[int, Mapping[str, float]]], text: Mapping[str, str] = {}) -> bytes:
    """An event file with scalars of the old kind, and texts as Transformers writes them."""

    def record(event: bytes) -> bytes:
        return struct.pack("<QI", len(event), 0) + event + struct.pack("<I", 0)

    out = record(b"\x09" + struct.pack("<d", 1.0) + message(3, b"brain.Event:2"))
    for tag, words in text.items():
        tensor = b"\x08\x07" + message(8, words.encode())
        out += record(message(5, message(1, message(1, tag.encode()) + message(8, tensor))))
    for step, values in rows:
        for tag, value in values.items():
            scalar = message(1, tag.encode()) + b"\x15" + struct.pack("<f", value)
            out += record(b"\x10" + varint(step) + message(5, message(1, scalar)))
    return out


def wandb(
    rows: Iterable[Mapping[str, Any]], config: Mapping[str, Any], console: Iterable[str] = (), code: int = 0
) -> bytes:
    """A ``.wandb`` file: records as pieces in blocks of 32 KiB. The console is printed before the last row."""

    def items(values: Mapping[str, Any]) -> bytes:
        return b"".join(
            message(
                1, message(1, key.encode()) + varint(16 << 3 | 2) + varint(len(v := json.dumps(value).encode())) + v
            )
            for key, value in values.items()
        )

    *before, last = (message(2, items(row)) for row in rows)
    printed = [message(13, message(3, text.encode())) for text in console]
    ended = message(18, varint(8) + varint(code))
    records = [message(17, message(4, items(config))), *before, *printed, last, ended]
    out = bytearray(b":W&B\xe1\xbe\x00")
    for record in records:
        first = True
        while True:
            room = 32768 - len(out) % 32768
            if room < 7:
                out += b"\0" * room
                continue
            piece, record = record[: room - 7], record[room - 7 :]
            kind = (1 if not record else 2) if first else (4 if not record else 3)
            out += struct.pack("<IHB", 0, len(piece), kind) + piece
            first = False
            if not record:
                break
    return bytes(out)
