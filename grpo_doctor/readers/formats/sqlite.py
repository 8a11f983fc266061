"""Reads metrics from the SQLite stores of trackio and of MLflow 3, which is the default store of MLflow and of verl."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any
from urllib.parse import quote

from ...limits import OverBudgetError, spent
from ...run import Run
from ..input import CHUNK, Head, Input, ReadError
from ..row_buffer import Rows
from ..values import loaded, whole

FORMAT = "sqlite"
_MAGIC = b"SQLite format 3\0"
_LONGEST = 1 << 24
"""Maximum size of a value or a row in bytes."""
TRACKIO, MLFLOW = "trackio", "mlflow"


def sniff(head: Head) -> int:
    return 3 if head.raw.startswith(_MAGIC) else 0


def read(file: Input) -> list[Run]:
    try:
        with _opened(file) as store:
            _refuse_damaged(file, store)
            columns = {name for _, name, *_ in store.execute("pragma table_info(metrics)")}
            if not all(_holds_rows(store, name) for name in ("metrics", "configs", "params")):
                columns = set()
            if {"run_name", "step", "metrics"} <= columns:
                return _runs(file, TRACKIO, _trackio(store), _configs(store))
            if {"run_uuid", "step", "key", "value", "is_nan"} <= columns:
                return _runs(file, MLFLOW, _mlflow(store), _params(store))
    except (sqlite3.Error, UnicodeDecodeError) as error:
        spent()
        raise ReadError(f"{file.source}: not a complete SQLite file: {error}") from None
    nothing = Run(file.source, FORMAT, "none")
    nothing.notes.append("a database without a metrics table of trackio or MLflow")
    return [nothing]


@contextmanager
def _opened(file: Input) -> Iterator[sqlite3.Connection]:
    """Open the store without writing files next to it. A compressed store is first unpacked to a temporary file."""
    with NamedTemporaryFile(suffix=".db") as copy, open(file.path, "rb") as whole:
        path = file.path
        if not whole.read(len(_MAGIC)).startswith(_MAGIC):
            with file.open() as packed:
                while chunk := packed.read(CHUNK):
                    spent()
                    copy.write(chunk)
            copy.flush()
            path = Path(copy.name)
        live = path.with_name(f"{path.name}-wal").exists()  # a writer is active, and this file contains the newest rows
        with closing(
            sqlite3.connect(f"file:{quote(str(path))}?mode=ro{'' if live else '&immutable=1'}", uri=True)
        ) as c:
            for pragma in ("trusted_schema = off", "cell_size_check = on", "mmap_size = 0"):
                c.execute(f"pragma {pragma}")
            c.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST)
            c.set_progress_handler(_over, 1_000)
            yield c


def _refuse_damaged(file: Input, store: sqlite3.Connection) -> None:
    """Raise `ReadError` if the pages of the store are inconsistent. SQLite's documentation recommends this check for
    untrusted files."""
    store.execute("pragma ignore_check_constraints = on")
    ((found,),) = store.execute("pragma quick_check(1)").fetchall()
    if found != "ok":
        raise ReadError(f"{file.source}: not a complete SQLite file: {' '.join(str(found).split())}")


def _holds_rows(store: sqlite3.Connection, name: str) -> bool:
    """Return whether a table stores its rows, or does not exist. Rows of a view, a virtual table or a generated column
    are computed, so a malicious file could make them endless or larger than memory."""
    for kind, sql in store.execute("select type, sql from sqlite_master where name = ? collate nocase", (name,)):
        if kind != "table" or str(sql).lower().startswith("create virtual"):
            return False
    return not any(hidden for *_, hidden in store.execute(f"pragma table_xinfo({name})"))


def _over() -> bool:
    """Return whether the input has used up its budget, so that SQLite interrupts the query."""
    try:
        spent()
    except OverBudgetError:
        return True
    return False


_Rows = Iterator[tuple[str, int, dict[str, Any]]]


def _runs(file: Input, format: str, found: _Rows, settings: dict[str, dict[str, Any]]) -> list[Run]:
    runs: dict[str, Rows] = {}
    for name, step, row in found:
        if name not in runs:
            runs[name] = Rows(replace(file, shown=f"{file.source} ({name})"), format)
            runs[name].declare(settings.get(name, {}))
        runs[name].add(row, step=step)
    if len(runs) == 1:
        (rows,) = runs.values()
        rows.file = file
    return [rows.run() for rows in runs.values()]


def _trackio(store: sqlite3.Connection) -> _Rows:
    """Yield one row per call of ``trackio.log``, whose metrics are stored as JSON, with NaN as text."""
    for name, step, metrics in store.execute("select run_name, step, metrics from metrics order by rowid"):
        row = loaded(_text(metrics))
        if isinstance(row, dict):
            yield str(name), whole(step), row


def _configs(store: sqlite3.Connection) -> dict[str, dict[str, Any]]:
    found = {}
    if not store.execute("pragma table_info(configs)").fetchone():
        return {}
    for name, config in store.execute("select run_name, config from configs"):
        settings = loaded(_text(config))
        if isinstance(settings, dict):
            found[str(name)] = settings
    return found


def _mlflow(store: sqlite3.Connection) -> _Rows:
    """Yield one row per step from MLflow's rows, each of which has one value. A repeated value replaces the earlier
    value."""
    query = "select run_uuid, step, key, value, is_nan from metrics order by run_uuid, step, timestamp"
    for (run, step), points in groupby(store.execute(query), key=itemgetter(0, 1)):
        yield str(run), whole(step), {str(key): math.nan if is_nan else value for *_, key, value, is_nan in points}


def _params(store: sqlite3.Connection) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for run, key, value in store.execute("select run_uuid, key, value from params"):
        found.setdefault(str(run), {})[str(key)] = value
    return found


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
