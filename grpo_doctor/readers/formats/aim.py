"""Reads the indexed runs of an Aim repository with Aim's own library, because the store is a RocksDB database.

The library is imported only in this module. The library does not show runs that are not indexed yet, but a note reports
their number. Aim indexes runs while its interface is open, or with ``aim storage reindex``.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from ...run import Run
from ..input import Head, Input, NotRead, ReadError
from ..row_buffer import Rows
from ..row_kinds import EVAL

FORMAT = "aim"
_SYSTEM = "__system__"


def sniff(head: Head) -> int:
    """Return 3 for the repository's SQLite file of names, which represents the whole repository, and 0 otherwise."""
    return 3 if head.raw.startswith(b"SQLite format 3\0") and b"CREATE TABLE run_tag" in head.raw else 0


def read(file: Input) -> list[Run]:
    try:
        library: Any = importlib.import_module("aim")
    except ImportError as error:
        raise ReadError(
            f"{file.source}: an Aim repository, which needs the library aim: pip install aim ({error})"
        ) from None
    told, waiting = _told(file, library)
    if not told:
        why = f"has no indexed run ({waiting} not indexed): run aim storage reindex" if waiting else "has no run"
        raise ReadError(f"{file.source}: the Aim repository {why}")
    found = [_run(file, run) for run in told]
    if waiting:
        why = f"runs of this repository that are not indexed and not read: {waiting}; run aim storage reindex"
        found[0].notes.append(NotRead(why))
    return found


class Told(NamedTuple):
    """The data of a run that the library returns."""

    name: str
    settings: Any
    points: list[tuple[str, int, Any]]


def _told(file: Input, library: Any) -> tuple[list[Told], int]:
    """Return the indexed runs of a repository, and the number of other runs. Raises `ReadError` if the repository is
    damaged."""
    try:
        repository = library.Repo(str(file.path.parent.parent))
        found = [Told(run.hash, run[...], list(_points(run))) for run in repository.iter_runs()]
        return found, len(repository.list_all_runs()) - len(found)
    except Exception as error:  # noqa: BLE001 - errors of RocksDB, SQLite and aim share only this base
        why = f"{type(error).__name__}: {error}".splitlines()[0]
        raise ReadError(f"{file.source}: an Aim repository that the library aim cannot read: {why}") from None


def _run(file: Input, told: Told) -> Run:
    rows = Rows(replace(file, shown=f"{file.source} ({told.name})"), FORMAT)
    rows.add_points(told.points)
    rows.declare(told.settings)
    return rows.run()


def _points(run: Any) -> Iterator[tuple[str, int, Any]]:
    """Yield the key, step and value of each point of the metrics. Contexts are used only to distinguish evaluation from
    training."""
    for metric in run.metrics():
        if metric.name.startswith(_SYSTEM):
            continue
        subset = str(metric.context.to_dict().get("subset", ""))
        key = f"{subset}/{metric.name}" if subset in EVAL else metric.name
        for step, (value, *_) in metric.data.items():
            yield key, int(step), value
