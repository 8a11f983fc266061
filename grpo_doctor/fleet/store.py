"""Stores a fleet in DuckDB: results that the next call reuses, and tables for user queries.

The tables are ``runs`` (one row per run), ``findings``, ``settings`` (one row per run and setting), ``levels`` (final
level of each success series) and ``files``. The column ``runs.settings`` is a struct with one field per setting. A
database file also has the table ``judged`` with the result of each unit, for the next call.
"""

from __future__ import annotations

import math
import shutil
import tempfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ..config import ConfigError
from ..extras import install
from ..limits import OverBudgetError, allowed, spending, spent
from ..report import output
from ..report.model import shortened
from ..series.trajectory import SUCCESS
from .locations import Unit, digest
from .merge import MergedFleet
from .unit import Job, Judged, Line, decode

_LEAST = 64.0
"""Minimum memory for DuckDB in megabytes."""
_FETCHED = 10_000
"""Number of rows to fetch at once."""
ASKED = frozenset({"SELECT", "EXPLAIN"})
"""Types of statements that only read data."""


class Answered(NamedTuple):
    """The result of a query."""

    head: list[str]
    rows: list[tuple[Any, ...]]


class Store:
    """A database of a fleet, in memory or in a file. Raises `ConfigError` if the database cannot be opened."""

    def __init__(self, path: Path | None = None) -> None:
        try:
            import duckdb
        except ImportError:
            raise ConfigError(f"fleet needs DuckDB; {install('fleet')}") from None
        self.remembers = path is not None
        self._errors = duckdb.Error
        try:
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
            self._database = duckdb.connect(":memory:" if path is None else str(path))
            self._database.execute(
                "create table if not exists judged (unit varchar primary key, rules varchar, document blob)"
            )
            if path is not None and not self.rows("select path from duckdb_databases() where path is not null"):
                raise ConfigError(f"--db {path}: not a DuckDB database")
        except (duckdb.Error, OSError) as error:
            raise ConfigError(f"--db {path}: {str(error).splitlines()[0]}") from None

    def close(self) -> None:
        self._database.close()

    # -- stored results ---------------------------------------------------------------------------------------------

    def known(self, units: Sequence[Unit], job: Job) -> dict[str, Judged]:
        """Return the stored results of the units whose files and rules have not changed."""
        wanted = {unit.name: unit for unit in units}
        found: dict[str, Judged] = {}
        for name, document in self._documents("where rules = ?", [job.key]):
            if name in wanted and (judged := _read(document)) and _unchanged(wanted[name], judged, job):
                found[name] = judged
        return found

    def others(self, units: Sequence[Unit], places: Sequence[str], job: Job) -> list[Judged]:
        """Return the stored results of units in other places. Delete the stored results of units that no longer exist
        in ``places``."""
        here = {unit.name for unit in units}
        found = []
        for name, document in self._documents("", []):
            if name in here:
                continue
            if any(name == place.rstrip("/") or name.startswith(place.rstrip("/") + "/") for place in places):
                self._database.execute("delete from judged where unit = ?", [name])
            elif judged := _read(document):
                _keep_pages(judged, job)
                found.append(judged)
        return found

    def remember(self, unit: Unit, document: bytes, job: Job) -> None:
        """Store the result of a unit immediately, so that an interrupted call loses only the units in progress."""
        if self.remembers:
            self._database.execute("insert or replace into judged values (?, ?, ?)", [unit.name, job.key, document])

    def _documents(self, where: str, values: list[Any]) -> list[tuple[str, bytes]]:
        if not self.remembers:
            return []
        found: list[tuple[str, bytes]] = self._database.execute(
            f"select unit, document from judged {where}", values
        ).fetchall()
        return found

    # -- the tables ----------------------------------------------------------------------------------------------

    def fill(self, fleet: MergedFleet) -> None:
        """Rebuild the tables from the rows of a fleet."""
        self._database.execute("begin")
        lines = fleet.lines
        self._runs(lines)
        findings = [(number, f) for number, line in enumerate(lines) for f in line.findings]
        self._table("findings", {
            "run": ("integer", [number for number, _ in findings]),
            **{name: ("varchar", [getattr(f, name) for _, f in findings])
               for name in "code name kind severity confidence role message".split()},
            **{name: ("bigint", [getattr(f, name) for _, f in findings]) for name in ("onset_step", "last_step")},
            "cleared": ("boolean", [f.cleared for _, f in findings]),
        })  # fmt: skip
        settings = [(number, *item) for number, line in enumerate(lines) for item in line.settings.items()]
        self._table("settings", {
            "run": ("integer", [number for number, _, _ in settings]),
            "name": ("varchar", [name for _, name, _ in settings]),
            "value": ("varchar", [_word(value) for _, _, value in settings]),
            "number": ("double", [_number(value) for _, _, value in settings]),
        })  # fmt: skip
        levels = [(number, *item) for number, line in enumerate(lines) for item in line.levels.items()]
        self._table("levels", {
            "run": ("integer", [number for number, _, _ in levels]),
            "metric": ("varchar", [metric for _, metric, _ in levels]),
            **{name: ("double", [_number(getattr(level, name)) for *_, level in levels])
               for name in ("now", "best", "error", "rows")},
        })  # fmt: skip
        self._table("files", {
            name: ("varchar", [getattr(answer, name) for answer in fleet.answers])
            for name in ("source", "fate", "why")
        })  # fmt: skip
        self._database.execute("commit")

    def _runs(self, lines: list[Line]) -> None:
        texts = "source unit verdict cause cause_name severity confidence worst format run_type headline twin report"
        columns: dict[str, tuple[str, list[Any]]] = {
            "run": ("integer", list(range(len(lines)))),
            "name": ("varchar", shortened([line.source for line in lines])),
            **{name: ("varchar", [getattr(line, name) or None for line in lines]) for name in texts.split()},
            **{name: ("bigint", [getattr(line, name) for line in lines])
               for name in ("steps", "first_step", "last_step", "onset_step")},
        }  # fmt: skip
        for metric in SUCCESS:
            known = [line.levels[metric].now if metric in line.levels else None for line in lines]
            columns[metric] = ("double", list(map(_number, known)))
        declared = _columns({name for line in lines for name in line.settings})
        fields = {f"settings.{as_}": _typed([line.settings.get(name) for line in lines]) for name, as_ in declared}
        self._table("flat", columns | fields)
        packed = ", ".join(f"{_quoted(as_)} := {_quoted(f'settings.{as_}')}" for _, as_ in declared)
        struct = f"struct_pack({packed})" if declared else "null"
        plain = ", ".join(_quoted(name) for name in columns)
        self._database.execute(f"create or replace view runs as select {plain}, {struct} as settings from flat")

    def _table(self, name: str, columns: Mapping[str, tuple[str, list[Any]]]) -> None:
        told = ", ".join(f"unnest(?::{kind}[]) as {_quoted(column)}" for column, (kind, _) in columns.items())
        values = [values for _, values in columns.values()]
        self._database.execute(f"create or replace table {name} as select {told}", values)

    # -- queries ----------------------------------------------------------------------------------------------------

    def rows(self, sql: str, values: Iterable[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of an internal query."""
        found: list[tuple[Any, ...]] = self._database.execute(sql, list(values)).fetchall()
        return found

    def flat(self) -> Answered:
        """Return the table of runs with one column per setting."""
        done = self._database.execute("select * from flat order by run")
        return Answered([column[0] for column in done.description or []], done.fetchall())

    def parquet(self, path: Path) -> None:
        """Write the table of `flat` as a Parquet file. Raises `ConfigError` if the file cannot be written."""
        try:
            with tempfile.TemporaryDirectory() as room, output.replacing(path) as file:
                made = Path(room, "flat.parquet")
                target = str(made).replace("'", "''")
                self._database.execute(f"copy (select * from flat order by run) to '{target}' (format parquet)")
                with made.open("rb") as whole:
                    shutil.copyfileobj(whole, file)
        except (self._errors, OSError) as error:
            raise ConfigError(f"{path}: cannot be written: {str(error).splitlines()[0]}") from None

    def ask(self, sql: str) -> Answered:
        """Return the result of a user's query, which can only read the tables of the fleet. Raises `ConfigError` for an
        invalid query."""
        try:
            statements = self._database.extract_statements(sql)
            if len(statements) != 1 or statements[0].type.name not in ASKED:
                raise ConfigError("--sql: expected one read-only statement: SELECT, WITH, FROM, DESCRIBE or EXPLAIN")
            most = allowed()
            self._database.execute(
                f"set memory_limit = '{max(most.megabytes, _LEAST):.0f}MiB'; set temp_directory = ''"
            )
            self._database.execute("set enable_external_access = false; set lock_configuration = true")
            return self._in_time(sql, most.seconds)
        except OverBudgetError as error:
            raise ConfigError(f"--sql: {error}") from None
        except self._errors as error:
            raise ConfigError(f"--sql: {' '.join(str(error).split())[:400]}") from None

    def _in_time(self, sql: str, seconds: float) -> Answered:
        """Run a query within the time and memory limits per input. Raises `OverBudgetError` if a limit is exceeded."""
        timer = threading.Timer(seconds, self._database.interrupt)
        timer.start()
        try:
            with spending():
                done = self._database.execute(sql)
                rows: list[tuple[Any, ...]] = []
                while some := done.fetchmany(_FETCHED):
                    rows += some
                    spent()
                return Answered([column[0] for column in done.description or []], rows)
        except self._errors:
            if timer.is_alive():
                raise
            raise OverBudgetError(f"stopped after {seconds:g} seconds; raise the limit with --budget-seconds") from None
        finally:
            timer.cancel()


def _unchanged(unit: Unit, judged: Judged, job: Job) -> bool:
    """Return whether the files of a unit are unchanged and the pages of its runs still exist. Files are compared by
    size and modification time. If the times differ, local files are compared by content."""
    before = {file.path: file for file in judged.files}
    if before.keys() != {file.path for file in unit.files}:
        return False
    for file in unit.files:
        then = before[file.path]
        if then.size != file.size:
            return False
        touched = then.changed != file.changed or not file.changed
        if touched and (unit.remote or not then.digest or digest(Path(file.path)) != then.digest):
            return False
    _keep_pages(judged, job)
    return job.reports is None or all(line.report for line in judged.lines if line.steps)


def _keep_pages(judged: Judged, job: Job) -> None:
    """Clear the page name of every run whose page is not in the output folder of this call."""
    for line in judged.lines:
        if job.reports is None or not (Path(job.reports) / line.report).is_file():
            line.report = ""


def _read(document: bytes) -> Judged | None:
    """Parse a stored result; return None if another version wrote the result."""
    try:
        return decode(document)
    except msgspec.DecodeError:
        return None


def _columns(settings: set[str]) -> list[tuple[str, str]]:
    """Map settings to column names. DuckDB ignores case, so of ``K`` and ``k``, the second becomes ``k_2``."""
    taken: dict[str, int] = {}
    named = []
    for name in sorted(settings):
        times = taken[name.lower()] = taken.get(name.lower(), 0) + 1
        named.append((name, name if times == 1 else f"{name}_{times}"))
    return named


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _word(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _typed(values: list[Any]) -> tuple[str, list[Any]]:
    """Return the narrowest type that can store all values of a setting, and the values to store."""
    known = [value for value in values if value is not None]
    for kind, types in (("boolean", (bool,)), ("bigint", (int,)), ("double", (int, float))):
        if all(isinstance(v, types) and (kind == "boolean" or not isinstance(v, bool)) for v in known):
            fits = kind != "bigint" or all(abs(v) < 1 << 63 for v in known)
            if fits:
                return kind, values
    return "varchar", [None if value is None else _word(value) for value in values]
