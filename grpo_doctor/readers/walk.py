"""The files of a folder: each one is named, with what became of it where its name or the system has that already."""

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
"""What became of a file. ``not read`` may be a log that no reader understood, ``unreadable`` is damaged or not given by
the system, ``failed`` is an error of grpo-doctor itself."""


class Answer(NamedTuple):
    """What became of one file of a folder, or of a folder that could not be entered, and why."""

    source: str
    fate: Fate
    why: str = ""


Candidate = tuple[Path, Answer | None]
FileState = tuple[int, int, int]
"""Inode, size and modification time of a file."""


def state_of(file: Path) -> FileState | None:
    """Return the state of a file; None if it is missing or was deleted since it was listed."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def candidates(folder: Path) -> Iterator[Candidate]:
    """Every file of a folder in the order that a reader would give them, and the answer for it where it is not read.

    Folders that are links are entered once, after all others, so that a run has the name of its own folder.
    """
    walk = _Walk(folder)
    while walk.waiting:
        yield from walk.below(walk.waiting.pop(0))


class _Walk:
    """Which folders and files were met, so that no link leads to one twice."""

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
        """The files of one folder; of its folders those stay that are entered next."""
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
        """The answer for a folder that was entered before, or has vanished."""
        try:
            known = folder.stat()
        except OSError as error:
            return Answer(str(folder), "unreadable", words(error))
        if (known.st_dev, known.st_ino) in self._folders:
            return Answer(str(folder), "no log", "a link to a folder that was read")
        self._folders.add((known.st_dev, known.st_ino))
        return None

    def _known(self, path: Path) -> Answer | None:
        """The answer for a file that is not read; None where it is."""
        if not has_name_of_log(path.name):
            return no_log(path, NO_NAME)
        try:
            known = path.stat()  # of what a link leads to
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
    """The answers for folders that the system did not let anybody enter, or that have vanished."""
    while failed:
        error = failed.pop(0)
        yield Path(error.filename), Answer(str(error.filename), "unreadable", f"a folder: {words(error)}")


def no_log(path: Path, why: str) -> Answer:
    """The answer for a file that is not asked whether it is a log: a run's records are read with what lies beside."""
    if path.name in COMPANIONS and path.with_name("records.jsonl").is_file():
        return Answer(str(path), "part of a run", "read with records.jsonl")
    return Answer(str(path), "no log", why)


def _aim(folder: Path) -> Path | None:
    """The file that stands for a repository of Aim."""
    found = folder / "run_metadata.sqlite"
    return found if folder.name == ".aim" and found.is_file() else None


def _mlflow(folder: Path) -> Path | None:
    """The first file of the metrics of one run of MLflow, which stands for all of them."""
    beside = folder.parent / "meta.yaml"
    files = metrics(folder) if folder.name == "metrics" and beside.is_file() else []
    return files[0] if files else None


def metrics(folder: Path) -> list[Path]:
    """The files of a folder of metrics, those of slash keys in folders of their own."""
    return sorted(path for path in folder.rglob("*") if path.is_file())
