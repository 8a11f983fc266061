"""Readers for ``watch``: one copies a growing log, and the other reads a folder or store in place."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from ..readers.walk import FileState, state_of

HEAD = 2
"""Number of lines at the start of a log that are compared to distinguish a rewritten log from a rotated log."""

WHOLE = {".json", ".ipynb"}
"""Suffixes of documents that are rewritten as a whole."""


class Follower:
    """Copies complete lines of a growing file to a separate folder; handles rotation, truncation and rewriting.

    A rotated file is read to its end before the new file is read. A file that starts again with the same first lines
    counts as
    rewritten: its lines replace the copied lines. If a file is truncated between two polls and then exceeds its old
    length, it cannot be distinguished from a file that grew.
    """

    def __init__(self, path: Path, folder: Path) -> None:
        self.path, self.copy = path, folder / path.name
        self._file: BinaryIO | None = None
        self._torn = b""
        self._start = 0
        """Offset in the copy where the current file begins."""
        self._held: bytes | None = None
        """Buffer for a file that starts again, until the first lines show whether the file was rewritten."""

    def poll(self) -> bool:
        """Copy new lines; return whether any were copied."""
        new = self._read()
        try:
            now = os.stat(self.path)
        except FileNotFoundError:  # the file does not exist yet, or a rotation is in progress
            return self._take(new)
        if not stat.S_ISREG(now.st_mode):  # replaced by a folder or a pipe
            return self._take(new)
        if self._file is None:
            self._file = open(self.path, "rb")  # noqa: SIM115 - stays open until the file is rotated
            return self._take(new + self._read())
        before = os.fstat(self._file.fileno())
        other = (now.st_dev, now.st_ino) != (before.st_dev, before.st_ino)
        if not other and now.st_size >= self._file.tell():
            return self._take(new)
        changed = self._take(new, ends=True)
        if other:
            self._file.close()
            self._file = open(self.path, "rb")  # noqa: SIM115
        self._file.seek(0)
        self._held = b""
        return self._take(self._read()) or changed

    def close(self) -> None:
        """Copy the remaining lines, including an incomplete last line, and close the file."""
        rest = self._read()
        if self._held is not None and (self._held + rest)[-1:] not in (b"", b"\n"):
            rest += b"\n"
        self._take(rest, ends=True)
        if self._file is not None:
            self._file.close()

    def _read(self) -> bytes:
        return b"" if self._file is None else self._file.read()

    def _take(self, new: bytes, *, ends: bool = False) -> bool:
        """Append complete lines to the copy; return whether any were appended. With ``ends``, the last line counts as
        complete."""
        if self._held is not None:
            self._held += new
            if not self._decided():
                return False
            new, self._held = self._held, None
        text = self._torn + new
        if ends and text and not text.endswith(b"\n"):
            text += b"\n"
        whole, newline, self._torn = text.rpartition(b"\n")
        if newline:
            with open(self.copy, "ab") as file:
                file.write(whole + newline)
        return bool(newline)

    def _decided(self) -> bool:
        """Decide from the first lines of a restarted file whether it was rewritten. Return whether there are enough
        lines to decide."""
        assert self._held is not None
        if not self.copy.exists():
            return True
        with open(self.copy, "rb") as file:
            file.seek(self._start)
            began = [line for line in (file.readline() for _ in range(HEAD)) if line]
        begins = self._held.splitlines(keepends=True)[:HEAD]
        if begins and not begins[-1].endswith(b"\n"):
            begins.pop()
        if any(old != new for old, new in zip(began, begins, strict=False)):
            self._start = self.copy.stat().st_size
            return True
        if len(begins) < len(began) or not began:
            return False
        os.truncate(self.copy, self._start)
        return True


class InPlace:
    """Reads a folder, store or document in place whenever one of its files has changed."""

    def __init__(self, path: Path) -> None:
        self.path = self.copy = path
        self._seen: dict[str, FileState] = {}

    def poll(self) -> bool:
        """Return whether a file has changed."""
        now = {str(file): state for file in self._files() if (state := state_of(file)) is not None}
        changed, self._seen = now != self._seen, now
        return changed

    def close(self) -> None:
        """Do nothing: no file is open."""

    def _files(self) -> Iterator[Path]:
        if not self.path.is_dir():
            yield from (self.path, self.path.with_name(self.path.name + "-wal"))  # SQLite's write-ahead log
        for parent, _, files in os.walk(self.path):
            yield from (Path(parent) / name for name in files if not name.startswith("."))


def follow(path: Path, folder: Path) -> Follower | InPlace:
    """Return the reader for a path. A text file is followed; any other input is read as a whole."""
    if path.is_dir() or path.suffix in WHOLE:
        return InPlace(path)
    try:
        with open(path, "rb") as file:
            binary = b"\0" in file.read(4096)
    except OSError:
        binary = False
    return InPlace(path) if binary else Follower(path, folder)
