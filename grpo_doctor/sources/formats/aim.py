"""A repository of Aim: the runs that its index holds, read by Aim's own library, since its store is RocksDB's.

The library is asked for only here. What has not been indexed yet (Aim does it when its interface is open, or by
``aim storage reindex``) the library does not show, and the answer then says so.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ...run import Run
from ..collect import Rows
from ..input import Head, Input, ReadError
from ..kinds import EVAL

FORMAT = "aim"
_SYSTEM = "__system__"


def sniff(head: Head) -> int:
    """The repository's SQLite file of names, which stands for all of it."""
    return 3 if head.raw.startswith(b"SQLite format 3\0") and b"CREATE TABLE run_tag" in head.raw else 0


def read(file: Input) -> list[Run]:
    try:
        library: Any = importlib.import_module("aim")
    except ImportError as error:
        raise ReadError(
            f"{file.source}: a repository of Aim, which its own library reads: pip install aim ({error})"
        ) from None
    repository = library.Repo(str(file.path.parent.parent))
    found = [_run(file, run) for run in repository.iter_runs()]
    waiting = len(repository.list_all_runs()) - len(found)
    if not found:
        why = f"none of whose runs ({waiting}) is indexed yet: aim storage reindex" if waiting else "without a run"
        raise ReadError(f"{file.source}: a repository of Aim {why}")
    if waiting:
        found[0].notes.append(f"of this repository {waiting} more are not indexed, and not read: aim storage reindex")
    return found


def _run(file: Input, run: Any) -> Run:
    rows = Rows(replace(file, shown=f"{file.source} ({run.hash})"), FORMAT)
    table: dict[int, dict[str, Any]] = {}
    for key, step, value in _points(run):
        table.setdefault(step, {})[key] = value
    for step in sorted(table):
        rows.add(table[step], step=step)
    rows.declare(run[...])
    return rows.run()


def _points(run: Any) -> Iterator[tuple[str, int, Any]]:
    """Key, step and value of each metric; of the contexts only what tells an evaluation from the training."""
    for metric in run.metrics():
        if metric.name.startswith(_SYSTEM):
            continue
        subset = str(metric.context.to_dict().get("subset", ""))
        key = f"{subset}/{metric.name}" if subset in EVAL else metric.name
        for step, (value, *_) in metric.data.items():
            yield key, int(step), value
