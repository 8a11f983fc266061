"""Writes outputs. A regular file is replaced atomically; a device, pipe or link is written to."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing(path: Path, *, named: bool = True) -> Iterator[BinaryIO]:
    """Yield a file to write. At the end of the block, the file replaces ``path`` and keeps the mode and owner of the
    old file.

    Args:
        named: whether the user named this path. A link at a path that the user named is followed. A link at a path that
            grpo-doctor chose is refused, because someone else may have created it.

    Raises:
        OSError: writing failed. If ``path`` is a regular file, it is unchanged.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    old = _status(path)
    if old is not None and stat.S_ISLNK(old.st_mode) and not named:
        raise OSError(errno.ELOOP, "is a symbolic link, which is not followed; remove it or name another file", path)
    draft = None if old is not None and not stat.S_ISREG(old.st_mode) else _draft(path, old)
    if draft is None:
        with open(path, "wb") as through:
            yield through
        return
    place, file = draft
    try:
        with file:
            yield file
        place.replace(path)
    except BaseException:
        place.unlink(missing_ok=True)
        raise


def replace(path: Path, text: str, *, named: bool = True) -> None:
    """Write a text with `replacing`. Raises OSError."""
    with replacing(path, named=named) as file:
        file.write(text.encode("utf-8", "replace"))


def create(path: Path, text: str) -> None:
    """Write a new file. Raises FileExistsError if the path exists, even as a dangling link, and OSError if writing
    fails."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "x", encoding="utf-8", errors="replace") as file:
        file.write(text)


def same(path: Path, others: Iterable[Path]) -> Path | None:
    """Return the first of the other paths that is the same regular file as ``path``, even through links, or None
    without such a path."""
    try:
        found = path.stat()
    except OSError:
        return None
    return next((o for o in others if stat.S_ISREG(found.st_mode) and _is(o, found)), None)


def _is(path: Path, found: os.stat_result) -> bool:
    try:
        return os.path.samestat(path.stat(), found)
    except OSError:
        return False


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except FileNotFoundError:
        return None


def _draft(path: Path, old: os.stat_result | None) -> tuple[Path, BinaryIO] | None:
    """Create a file in the same folder under an unpredictable name. Return None if only ``path`` is writable."""
    place = path.with_name(f".{path.name[:64]}.{os.urandom(8).hex()}.part")
    try:
        descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    except PermissionError:
        if old is None:
            raise
        return None
    if old is not None:
        try:
            if (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
                os.fchown(descriptor, old.st_uid, old.st_gid)
            os.fchmod(descriptor, stat.S_IMODE(old.st_mode))
        except PermissionError:
            os.close(descriptor)
            place.unlink()
            return None
    return place, open(descriptor, "wb")
