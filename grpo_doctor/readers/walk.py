"""Lists the files of a folder, with the outcome for files that need not be read."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from ..run import BATCHES, COMPANIONS, RANKS
from .input import words
from .log_names import NO_NAME, has_name_of_log, holds_data, is_passed_over
from .views import natural

Fate = Literal["read", "part of a run", "second view", "no log", "not read", "unreadable", "failed"]
"""The outcome for a file. A ``not read`` file may be a log that no reader recognised. An ``unreadable`` file is damaged
or cannot be opened, and ``failed`` means an internal error."""


class Answer(NamedTuple):
    """The outcome for a file, or for a folder that could not be opened, with the reason."""

    source: str
    fate: Fate
    why: str = ""


Candidate = tuple[Path, Answer | None]
FileState = tuple[int, int, int]
"""Inode, size and modification time of a file."""


def state_of(file: Path) -> FileState | None:
    """Return the state of a file, or None if the file does not exist or cannot be accessed."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def candidates(folder: Path) -> Iterator[Candidate]:
    """Yield every file of a folder in natural order, with the outcome for files that are not read.

    Links to folders are followed once, after all real folders, so that a run is named after its real folder.
    """
    walk = _Walk(folder)
    while walk.waiting:
        yield from walk.below(walk.waiting.pop(0))


class _Walk:
    """Tracks visited folders and files, so that links do not lead to the same folder or file twice."""

    def __init__(self, top: Path) -> None:
        self.top = Path(os.path.realpath(top))
        self.waiting = [top]
        self._folders: set[tuple[int, int]] = set()
        self._files: set[tuple[int, int]] = set()

    def below(self, start: Path) -> Iterator[Candidate]:
        failed: list[OSError] = []
        for parent, folders, files in os.walk(start, onerror=failed.append):
            yield from _not_entered(failed)
            here = Path(parent)
            if (known := self._met(here)) is not None:
                folders.clear()
                yield here, known
                continue
            yield from self._of_folder(here, folders, files)
        yield from _not_entered(failed)

    def _of_folder(self, here: Path, folders: list[str], files: list[str]) -> Iterator[Candidate]:
        """Yield the files of one folder, and update the list of subfolders to visit next."""
        if (whole := _aim(here) or _mlflow(here)) is not None:
            folders.clear()
            yield whole, None
            return
        if "records.jsonl" in files:
            folders[:] = [name for name in folders if name not in (RANKS, BATCHES)]
        folders[:] = sorted((name for name in folders if not is_passed_over(name)), key=natural)
        for link in [here / name for name in folders if (here / name).is_symlink()]:
            folders.remove(link.name)
            if self.top.is_relative_to(there := os.path.realpath(link)) and there != str(self.top):
                yield (
                    link,
                    Answer(str(link), "not read", f"a link to {there}, which contains this folder; pass it explicitly"),
                )
            else:
                self.waiting.append(link)
        for name in sorted(files, key=natural):
            part = name in COMPANIONS and "records.jsonl" in files
            yield here / name, no_log(here / name, NO_NAME) if part else self._known(here / name)

    def _met(self, folder: Path) -> Answer | None:
        """Return the outcome for a folder that was visited before or cannot be accessed; None for any other folder."""
        try:
            known = folder.stat()
        except OSError as error:
            return Answer(str(folder), "unreadable", words(error))
        if (known.st_dev, known.st_ino) in self._folders:
            return Answer(str(folder), "no log", "a link to a folder that was read")
        self._folders.add((known.st_dev, known.st_ino))
        return None

    def _known(self, path: Path) -> Answer | None:
        """Return the outcome for a file that is not read, or None if it is read."""
        if not has_name_of_log(path.name):
            return no_log(path, NO_NAME)
        try:
            known = path.stat()  # checks the target of a link
        except OSError as error:
            if path.is_symlink() and not isinstance(error, PermissionError):
                return Answer(str(path), "not read", f"a broken link ({words(error)})")
            return Answer(str(path), "unreadable", words(error))
        if not stat.S_ISREG(known.st_mode):
            return Answer(str(path), "not read", "not a regular file")
        if not known.st_size:
            return Answer(str(path), "not read" if holds_data(path.name) else "no log", "the file is empty")
        if (known.st_dev, known.st_ino) in self._files:
            return Answer(str(path), "no log", "the same file as another of this folder")
        self._files.add((known.st_dev, known.st_ino))
        return None


def _not_entered(failed: list[OSError]) -> Iterator[Candidate]:
    """Yield the outcomes for folders that could not be opened."""
    while failed:
        error = failed.pop(0)
        yield Path(error.filename), Answer(str(error.filename), "unreadable", f"a folder: {words(error)}")


def no_log(path: Path, why: str) -> Answer:
    """Return the outcome for a file that is not a log. A file that is read together with ``records.jsonl`` is part of a
    run."""
    if path.name in COMPANIONS and path.with_name("records.jsonl").is_file():
        return Answer(str(path), "part of a run", "read with records.jsonl")
    return Answer(str(path), "no log", why)


def _aim(folder: Path) -> Path | None:
    """Return the file that represents an Aim repository; None for other folders."""
    found = folder / "run_metadata.sqlite"
    return found if folder.name == ".aim" and found.is_file() else None


def _mlflow(folder: Path) -> Path | None:
    """Return the first metric file of an MLflow run, which represents all metric files; None for other folders."""
    beside = folder.parent / "meta.yaml"
    files = metrics(folder) if folder.name == "metrics" and beside.is_file() else []
    return files[0] if files else None


def metrics(folder: Path) -> list[Path]:
    """Return the files of a folder of metrics. Files of keys with slashes are in subfolders."""
    return sorted(path for path in folder.rglob("*") if path.is_file())
