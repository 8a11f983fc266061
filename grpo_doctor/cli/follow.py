"""What ``watch`` reads: a log that grows, in a copy of its own; or a folder or store, where it stands."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

HEAD = 2
"""First lines by which a log that was written anew is known from one that goes on in a new file."""

WHOLE = {".json", ".ipynb"}
"""Suffixes of documents that are replaced as a whole and never continued."""


class Follower:
    """Copies whole lines of a growing file into a folder of its own, across rotation, truncation and rewriting.

    A rotated file is read to its end before the new one is begun. A file that begins again with the lines with which
    it began before was rewritten: its lines replace those that were copied. A file that is truncated and outgrows its
    old length between two polls cannot be told from one that grew.
    """

    def __init__(self, path: Path, folder: Path) -> None:
        self.path, self.copy = path, folder / path.name
        self._file: BinaryIO | None = None
        self._torn = b""
        self._start = 0
        """Where in the copy the present file begins."""
        self._held: bytes | None = None
        """Of a file that begins again, until its first lines show what it is."""

    def poll(self) -> bool:
        """Takes what is new; whether there was any."""
        new = self._read()
        try:
            now = os.stat(self.path)
        except FileNotFoundError:  # not yet written, or between the two steps of a rotation
            return self._take(new)
        if not stat.S_ISREG(now.st_mode):  # a folder or a pipe stands where the log was
            return self._take(new)
        if self._file is None:
            self._file = open(self.path, "rb")  # noqa: SIM115 - lives until the file is rotated
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
        """Takes what is left, a torn last line too, and lets go of the file."""
        rest = self._read()
        if self._held is not None and (self._held + rest)[-1:] not in (b"", b"\n"):
            rest += b"\n"
        self._take(rest, ends=True)
        if self._file is not None:
            self._file.close()

    def _read(self) -> bytes:
        return b"" if self._file is None else self._file.read()

    def _take(self, new: bytes, *, ends: bool = False) -> bool:
        """Adds whole lines to the copy; whether there were any. Where the file ends, its last line is whole."""
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
        """Whether the first lines of a file that begins again show if it goes on or was rewritten; acts on it."""
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
    """A folder, a store or a document, read where it stands whenever any of its files has changed."""

    def __init__(self, path: Path) -> None:
        self.path = self.copy = path
        self._seen: dict[str, tuple[int, int, int]] = {}

    def poll(self) -> bool:
        """Whether anything is new."""
        now = {str(file): state for file in self._files() if (state := _state(file)) is not None}
        changed, self._seen = now != self._seen, now
        return changed

    def close(self) -> None:
        """Nothing is held."""

    def _files(self) -> Iterator[Path]:
        if not self.path.is_dir():
            yield from (self.path, self.path.with_name(self.path.name + "-wal"))  # what SQLite has not yet moved
        for parent, _, files in os.walk(self.path):
            yield from (Path(parent) / name for name in files if not name.startswith("."))


def _state(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except OSError:  # not there, or gone since it was listed
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def follow(path: Path, folder: Path) -> Follower | InPlace:
    """The way to read what is there, or will be: lines of a text are followed, all else is read as a whole."""
    if path.is_dir() or path.suffix in WHOLE:
        return InPlace(path)
    try:
        with open(path, "rb") as file:
            binary = b"\0" in file.read(4096)
    except OSError:
        binary = False
    return InPlace(path) if binary else Follower(path, folder)
