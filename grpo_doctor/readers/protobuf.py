"""Parses the parts of the protocol buffer wire format that are needed to read logs without the libraries that wrote
them."""

from __future__ import annotations

import struct
from collections.abc import Iterator

Field = tuple[int, int | bytes | float]


class WireError(ValueError):
    """Bytes that are not a protocol buffer message."""


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the varint at an index, and the index after the varint. Raises `WireError`."""
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    raise WireError("torn number")


def fields(data: bytes) -> Iterator[Field]:
    """Yield the number and the value of each field. The value is an int for a varint, a float for a fixed width, and
    bytes otherwise. Raises `WireError`."""
    at, end = 0, len(data)
    while at < end:
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
            yield key >> 3, value
        elif kind == 2:
            length, at = varint(data, at)
            if at + length > end:
                raise WireError("torn field")
            yield key >> 3, data[at : at + length]
            at += length
        elif kind in (1, 5):
            width, code = (8, "<d") if kind == 1 else (4, "<f")
            if at + width > end:
                raise WireError("torn field")
            yield key >> 3, struct.unpack_from(code, data, at)[0]
            at += width
        else:
            raise WireError(f"unknown kind {kind}")


def messages(data: bytes, *path: int) -> Iterator[bytes]:
    """Yield the messages and texts at a path of field numbers. Raises `WireError`."""
    for number, value in fields(data):
        if number == path[0] and isinstance(value, bytes):
            yield from messages(value, *path[1:]) if path[1:] else (value,)


def text(value: int | bytes | float) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
