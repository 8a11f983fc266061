"""Reads any log into `Run` objects: `read` returns the runs, and `survey` also returns the outcome for every file.

The other names are for readers of new formats; see the tutorial in ``.github/CONTRIBUTING.md``.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

from ..fault_isolation import bug
from ..record import Event
from ..run import Run, RunBuilder, Sample, Table
from . import remote
from .folder import Survey, of_archive, refuse_torn, renamed
from .folder import survey as of_folder
from .input import ArchiveError, Head, Input, NotRead, ReadError
from .reader import read_input
from .walk import Answer, FileState, state_of

__all__ = ["Event", "Head", "Input", "NotRead", "ReadError", "Run", "RunBuilder", "Sample", "Table", "read", "survey"]


def read(path: Path, mapping: Mapping[str, str] | None = None) -> list[Run]:
    """Return the runs in a file or a folder. Raises `ReadError` if the input cannot be read.

    For text without a known metric, the result is one empty run of type ``none``, which no check judges.
    """
    found = survey(path, mapping)
    if found.failed and not found.runs:
        raise RuntimeError(f"{found.failed[0].source}: {found.failed[0].why}")
    if not found.runs:
        why = next((f"{answer.source}: {answer.why}" for answer in found.unreadable), None)
        raise ReadError(why or f"{path}: no training log found in this folder ({found.words()}); name the file")
    return found.runs


Kept = dict[Path, tuple[FileState, list[Run], list[Any]]]
"""Files of rollouts, each with its state, its runs, and the collected statistics. Files of earlier steps do not change,
and a file that contains all steps only grows."""


def survey(path: Path, mapping: Mapping[str, str] | None = None, kept: Kept | None = None) -> Survey:
    """Read the runs in a file, in a folder or at an address, and return the outcome for every file. Raises `ReadError`
    if a single file or an address cannot be read.

    Args:
        path: the input.
        mapping: record fields by log key.
        kept: files of rollouts from earlier calls. Unchanged files are not read again, and the files of this call are
            added.
    """

    def read_file(log: Path) -> list[Run]:
        now = None if kept is None else state_of(log)
        if kept is not None and now is not None and log in kept and kept[log][0] == now:
            return deepcopy(kept[log][1])
        grown = kept[log][2] if kept is not None and log in kept else []
        runs = read_input(Input(log, mapping or {}, grown=grown))
        if kept is not None and now is not None and all(run.format == "completions" for run in runs):
            kept[log] = now, deepcopy(runs), grown
        return runs

    if (address := remote.address_of(path)) is not None:
        with remote.downloaded(address) as (folder, named):
            return renamed(of_folder(folder, read_file), named, path)
    if path.is_dir():
        return of_folder(path, read_file)
    if str(path) == "-":
        with tempfile.NamedTemporaryFile() as copy:
            shutil.copyfileobj(sys.stdin.buffer, copy)
            copy.flush()
            runs = read_input(Input(Path(copy.name), mapping or {}, shown="standard input"))
            return Survey(runs, [Answer(str(path), "read")])
    try:
        runs = read_file(path)
        refuse_torn(path, runs)
    except ArchiveError:
        return Survey(*of_archive(path, read_file))
    except ReadError:
        raise
    except Exception as error:  # noqa: BLE001 - an error of the reader must not affect other inputs
        return Survey([], [Answer(str(path), "failed", bug(error))])
    return Survey(runs, [Answer(str(path), "read")])
