"""Reads zip archives within limits: unpacks the files that may be logs, or yields the samples of an Inspect log."""

from __future__ import annotations

import re
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from ..limits import OverBudgetError, spending, spent
from .input import CHUNK, UnreadableError
from .log_names import has_name_of_log

ZIP = b"PK\x03\x04"
MEMBERS = 2_000
LARGEST = 1 << 30
"""Maximum number of unpacked bytes (`MEMBERS` is the maximum number of files), because a zip bomb of a few kilobytes
unpacks to terabytes."""
_JOURNAL = ZIP + b".{26}_journal/"
"""Start of an Inspect log, which is a zip archive with a journal and one JSON document per sample."""


def is_inspect_log(raw: bytes) -> bool:
    """Return whether a file that starts with these bytes is an Inspect log (``.eval``)."""
    return re.match(_JOURNAL, raw, re.DOTALL) is not None


def inspect_samples(path: Path) -> Iterator[bytes]:
    """Yield the samples of an Inspect log as JSON. Raises `UnreadableError`."""
    with _opened(path) as archive:
        for _, chunks in _members(archive, lambda name: name.startswith("samples/"), "samples"):
            yield b"".join(chunks)


@contextmanager
def unpacked(path: Path) -> Iterator[Path]:
    """Yield a temporary folder with the files of an archive that may be logs. Raises `UnreadableError`."""
    with tempfile.TemporaryDirectory(prefix="grpo-doctor-") as folder:
        with _opened(path) as archive:
            for name, chunks in _members(archive, _is_log, "logs"):
                inside = (part for part in PurePosixPath(name).parts if part not in ("/", ".."))
                target = Path(folder).joinpath(*inside)
                target.parent.mkdir(parents=True, exist_ok=True)
                with target.open("wb") as file:
                    file.writelines(chunks)
        yield Path(folder)


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with spending(), zipfile.ZipFile(path) as archive:
            yield archive
    except OverBudgetError as error:
        raise UnreadableError(f"{path}: {error}; unpack it and pass the folder") from None
    except (zipfile.BadZipFile, OSError, EOFError, zlib.error, RuntimeError, NotImplementedError) as error:
        raise UnreadableError(f"{path}: the archive cannot be unpacked: {error}") from None


def _members(
    archive: zipfile.ZipFile, wanted: Callable[[str], bool], what: str
) -> Iterator[tuple[str, Iterator[bytes]]]:
    """Yield the names and chunks of the wanted files. Raises `OverBudgetError`."""
    members = [info for info in archive.infolist() if not info.is_dir() and wanted(info.filename)]
    if len(members) > MEMBERS:
        raise OverBudgetError(f"an archive of {len(members)} files, more than {MEMBERS}")
    left = LARGEST

    def chunks(packed: IO[bytes]) -> Iterator[bytes]:
        nonlocal left
        while chunk := packed.read(CHUNK):
            spent()
            left -= len(chunk)
            if left < 0:
                raise OverBudgetError(f"an archive of more than {LARGEST >> 20} MB of {what}")
            yield chunk

    for info in members:
        with archive.open(info) as packed:
            yield info.filename, chunks(packed)


def _is_log(name: str) -> bool:
    return "\0" not in name and has_name_of_log(PurePosixPath(name).name)
