"""Unpacks the files of a zip archive that may be logs into a temporary folder, within limits."""

from __future__ import annotations

import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from ..limits import OverBudgetError, spending, spent
from .input import CHUNK, UnreadableError
from .log_names import has_name_of_log

ZIP = b"PK\x03\x04"
MEMBERS = 2_000
LARGEST = 1 << 30
"""Maximum number of files per archive, and of unpacked bytes: a zip bomb of a few kilobytes unpacks to terabytes."""


@contextmanager
def unpacked(path: Path) -> Iterator[Path]:
    """Yield the folder with the files of an archive that may be logs. Raises `UnreadableError`."""
    with tempfile.TemporaryDirectory(prefix="grpo-doctor-") as folder:
        try:
            with spending(), zipfile.ZipFile(path) as archive:
                _unpack(archive, Path(folder))
        except OverBudgetError as error:
            raise UnreadableError(f"{path}: {error}; unpack it and pass the folder") from None
        except (zipfile.BadZipFile, OSError, EOFError, zlib.error, RuntimeError, NotImplementedError) as error:
            raise UnreadableError(f"{path}: the archive cannot be unpacked: {error}") from None
        yield Path(folder)


def _unpack(archive: zipfile.ZipFile, folder: Path) -> None:
    members = [info for info in archive.infolist() if not info.is_dir() and _is_log(info.filename)]
    if len(members) > MEMBERS:
        raise OverBudgetError(f"an archive of {len(members)} files, more than {MEMBERS}")
    left = LARGEST
    for info in members:
        target = folder.joinpath(*(part for part in PurePosixPath(info.filename).parts if part not in ("/", "..")))
        target.parent.mkdir(parents=True, exist_ok=True)
        with archive.open(info) as packed, target.open("wb") as file:
            while chunk := packed.read(CHUNK):
                spent()
                left -= len(chunk)
                if left < 0:
                    raise OverBudgetError(f"an archive of more than {LARGEST >> 20} MB of logs")
                file.write(chunk)


def _is_log(name: str) -> bool:
    return "\0" not in name and has_name_of_log(PurePosixPath(name).name)
