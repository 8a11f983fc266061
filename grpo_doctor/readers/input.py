"""Reads any input as bytes, lines and texts, including compressed files, other encodings, and incomplete files."""

from __future__ import annotations

import codecs
import gzip
import io
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

from ..limits import spent

T = TypeVar("T")
HEAD = 1 << 16
"""Number of bytes at the start of a file from which its format is recognised."""
CHUNK = 1 << 20
"""Number of bytes to read at once."""
LONGEST = 1 << 22
"""Maximum length of a line in bytes. Longer lines are skipped with a note, because no line of metrics is that long."""

PARTED = b"\x1b\r\0"
"""The characters that `pieces` removes from a line, or at which `pieces` splits the line."""
_ESCAPE, _RETURN, _ = PARTED
_CONTROL = bytes(set(range(32)) - set(b"\t\n\r\f\x1b\0"))
_MANGLED = re.compile(rb"\xc3\xa2\xe2|\xc3\x82\xc2")
"""Start of bars, arrows and signs that a Windows terminal decoded wrongly, such as ``â”‚`` and ``Â±``."""
_LETTERS = {bytes([byte]).decode("cp1252", "ignore") or chr(byte): byte for byte in range(256)}
"""The bytes of Windows-1252 by their characters. Five bytes have no character, and map to the control characters with
the same code."""
_ANSI = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")


class ReadError(ValueError):
    """An input that cannot be read; the message names the file, the line if known, and the fix."""


class UnreadableError(ReadError):
    """A file that cannot be opened or is damaged, and that may have been a log."""


class ArchiveError(ReadError):
    """An archive that must be unpacked and read as a folder."""


class NotRead(str):
    """A note on data that a reader skipped or could not read, so the diagnosis may be incomplete."""


class Torn(NotRead):
    """A note on a file or a line whose end is missing."""


@dataclass
class Input:
    """One file of a run."""

    path: Path
    mapping: Mapping[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    shown: str = ""
    embedded: bool = False
    """Whether this input is a part of another file, so its line numbers do not apply to that file."""
    completed: bool = False
    """Whether the program that printed this input is known to have run to its end, whatever errors it printed."""
    grown: list[Any] = field(default_factory=list)
    """Data that an earlier call collected from a file of rows, as stored by `keep`."""
    _start: int = field(default=0, init=False)
    _taken: int = field(default=0, init=False)

    @property
    def source(self) -> str:
        return self.shown or str(self.path)

    def open(self) -> BinaryIO:
        """Open the file for reading bytes, decompressed, with UTF-16 converted to UTF-8. Raises `ReadError`."""
        try:
            file = open(self.path, "rb")  # noqa: SIM115 - the caller closes it
        except OSError as error:
            raise UnreadableError(f"{self.path}: {error.strerror}") from None
        try:
            magic = file.read(6)
            file.seek(0)
        except OSError as error:
            file.close()
            raise UnreadableError(f"{self.path}: {error.strerror}") from None
        if magic[:2] == b"\x1f\x8b":
            return cast(BinaryIO, gzip.open(file))
        if magic[:3] == b"BZh":
            import bz2

            return cast(BinaryIO, bz2.open(file))
        if magic == b"\xfd7zXZ\0":
            import lzma

            return cast(BinaryIO, lzma.open(file))
        if magic[:4] == b"\x28\xb5\x2f\xfd":
            import zstandard

            return io.BufferedReader(zstandard.ZstdDecompressor().stream_reader(file))
        if magic[:2] in (b"\xff\xfe", b"\xfe\xff"):  # as written by PowerShell
            return cast(BinaryIO, codecs.EncodedFile(file, "utf-8", "utf-16", "replace"))
        return file

    def head(self) -> Head:
        """Return the beginning of the file, from which formats are recognised. Raises `UnreadableError`."""
        try:
            with self.open() as file:
                raw = file.read(HEAD)
        except broken() as error:
            raise UnreadableError(f"{self.source}: {words(error)}") from None
        return Head(self.path.name, raw, self.mapping)

    def text(self) -> str:
        """Return the whole file, for formats that are one document. Raises `OverBudgetError` if it is too large."""
        whole = bytearray()
        with self.open() as file:
            while chunk := file.read(CHUNK):
                whole += chunk
                spent(len(whole))
        return whole.decode("utf-8", "replace").replace("\0", "")

    def lines(self) -> Iterator[tuple[int, str]]:
        r"""Yield the line number and each text of a line, without ANSI codes and NULs. A ``\r`` ends a text but not a
        line."""
        for number, raw in self.raw_lines():
            for piece in pieces(raw):
                yield number, decoded(piece)

    def raw_lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield the line number and the bytes of each line, for formats that decode lines themselves."""
        for first, lines in self.blocks():
            yield from enumerate(lines, first)

    def blocks(self) -> Iterator[tuple[int, list[bytes]]]:
        """Yield blocks of lines, each with the number of its first line. A line that is too long is replaced by an
        empty line."""
        with self.open() as file:
            if self._start:
                file.seek(self._start)
            yield from self._split(file)

    def resumed(self, fresh: Callable[[], T]) -> T:
        """Return the data that an earlier call collected if the file has only grown since, and skip the earlier rows.
        Otherwise, return fresh data."""
        if self.grown:
            collected, notes, end, last = self.grown
            with open(self.path, "rb") as file:
                file.seek(end - len(last))
                if file.read(len(last)) == last:
                    self._start = end
                    self.notes += notes
                    return cast(T, collected)
        return fresh()

    def keep(self, collected: Any) -> None:
        """Store the collected data for a later call, unless the last row is incomplete."""
        self.grown.clear()
        end = self._start + self._taken
        with open(self.path, "rb") as file:
            file.seek(max(0, end - HEAD))
            last = file.read(min(end, HEAD))
        if last.endswith(b"\n"):
            self.grown += collected, list(self.notes), end, last

    def _chunks(self, file: BinaryIO) -> Iterator[bytes]:
        """Yield the file in chunks. For an incomplete compressed file, yield the complete part."""
        try:
            while chunk := file.read(CHUNK):
                spent()
                self._taken += len(chunk)
                yield chunk
        except broken() as error:
            self.notes.append(
                Torn(f"the compressed file is incomplete; the data before the error was read: {words(error)}")
            )

    def _split(self, file: BinaryIO) -> Iterator[tuple[int, list[bytes]]]:
        number, rest, skipping = 1, b"", False
        for chunk in self._chunks(file):
            if not skipping and chunk.isspace() and not rest.strip():  # a crafted file may have gigabytes of blanks
                number, rest = number + chunk.count(b"\n"), b""
                continue
            *lines, end = chunk.split(b"\n")
            if lines:
                lines[0] = b"" if skipping else rest + lines[0]
                yield number, lines
                number, rest, skipping = number + len(lines), b"", False
            rest += end
            if len(rest) > LONGEST:
                if not skipping:
                    self.notes.append(NotRead(f"line {number} is longer than {LONGEST >> 20} MB and was skipped"))
                rest, skipping = b"", True
        if rest and not skipping:
            yield number, [rest]

    @staticmethod
    def texts(line: bytes) -> list[str]:
        r"""Return the texts of a line, separated by ``\r``, without ANSI codes and NULs."""
        return [decoded(piece) for piece in pieces(line)]


def pieces(line: bytes) -> list[bytes]:
    r"""Return the pieces of a line, separated by ``\r``, without ANSI codes and NULs."""
    if _ESCAPE in line:
        line = _ANSI.sub(b"", line)
    if 0 in line:
        line = line.replace(b"\0", b"")
    if _RETURN not in line:
        return [line]
    return [piece for piece in line.split(b"\r") if piece]


def lines_with(marks: Iterable[bytes], first: int, block: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a block that contain any of the marks, with their numbers. ``first`` is the number of the
    block's first line. A search in the whole block is faster than a search in each line."""
    ends: dict[int, int] = {}
    for mark in marks:
        at = block.find(mark)
        while at >= 0:
            end = block.find(b"\n", at)
            end = len(block) if end < 0 else end
            ends[block.rfind(b"\n", 0, at) + 1] = end
            at = block.find(mark, end)
    line, place = first, 0
    for begin in sorted(ends):
        line, place = line + block.count(b"\n", place, begin), begin
        yield line, block[begin : ends[begin]]


class Head:
    """The beginning of a file as bytes, text and lines."""

    def __init__(self, name: str, raw: bytes, mapping: Mapping[str, str] | None = None) -> None:
        self.name, self.raw, self.mapping = name, raw, mapping or {}
        self.text = raw.decode("utf-8", "replace")
        if _MANGLED.search(raw):
            self.text = "\n".join(map(decoded, raw.split(b"\n")))
        self.lines = self.text.splitlines()

    @property
    def binary(self) -> bool:
        """Return whether the input contains bytes that do not occur in text logs."""
        looked = self.raw[:4096]
        return len(looked) - len(looked.translate(None, _CONTROL)) > len(looked) / 50


def decoded(line: bytes) -> str:
    """Decode a line, and repair UTF-8 that was read as Windows-1252 and written as UTF-8."""
    if line.isascii():
        return line.decode("ascii")
    text = line.decode("utf-8", "replace")
    if not _MANGLED.search(line):
        return text
    try:
        return bytes(_LETTERS[letter] for letter in text).decode("utf-8")
    except (KeyError, UnicodeError):  # only a part of the line is decoded wrongly
        return text


def broken() -> tuple[type[Exception], ...]:
    """Return the exceptions that reading a damaged file may raise."""
    known: tuple[type[Exception], ...] = (OSError, EOFError, zlib.error)
    if lzma := sys.modules.get("lzma"):
        known = (*known, lzma.LZMAError)
    if zstd := sys.modules.get("zstandard"):
        known = (*known, zstd.ZstdError)
    return known


def words(error: Exception) -> str:
    """Return the system's error message without the error number and the file name."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
