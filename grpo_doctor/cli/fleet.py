"""``grpo-doctor fleet``: diagnoses hundreds of runs and finds the settings that separate failing runs."""

from __future__ import annotations

import atexit
import gc
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from ..config import Config, ConfigError
from ..diagnosis.check import Severity
from ..readers.folder import Survey
from ..report.redaction import inert
from . import common

if TYPE_CHECKING:
    from ..fleet.merge import MergedFleet
    from ..fleet.overview import Overview
    from ..fleet.store import Answered, Store
    from ..fleet.unit import Job, Judged
    from ..report.model import Options

FORMATS = ("text", "html", "json", "csv", "parquet")
PAGES = "runs"
"""Subfolder of ``--out`` with a page for each run."""


Places: TypeAlias = Annotated[
    list[str] | None,
    typer.Argument(
        help="Run folders, logs, or addresses such as s3://bucket/sweep and wandb://entity/project.", show_default=False
    ),
]
Out: TypeAlias = Annotated[
    Path | None, typer.Option("--out", help="Write index.html and a page for each run to this folder.")
]
Database: TypeAlias = Annotated[
    Path | None,
    typer.Option("--db", help="Store the results in this DuckDB file; the next call reads only changed files."),
]
Question: TypeAlias = Annotated[
    str | None,
    typer.Option("--sql", help="Read-only SQL query on the tables runs, findings, settings, levels and files."),
]
Plan: TypeAlias = Annotated[
    float | None,
    typer.Option("--plan", help="Estimate how many seeds and steps can detect a gain of this size.", min=0),
]
Jobs: TypeAlias = Annotated[
    int | None, typer.Option("--jobs", "-j", help="Number of reading processes.", min=1, show_default="one per core")
]
Cluster: TypeAlias = Annotated[
    str | None, typer.Option("--ray", help="Read on the Ray cluster at this address; auto finds a running one.")
]
Format: TypeAlias = Annotated[str, typer.Option("--output-format", "-f", help="text, html, json, csv or parquet.")]


@common.configured(common.CHECKS, common.LOGS, common.LIMITS, without="preview")
def fleet(
    places: Places = None,
    out: Out = None,
    db: Database = None,
    sql: Question = None,
    plan: Plan = None,
    jobs: Jobs = None,
    ray: Cluster = None,
    output_format: Format = "text",
    output_file: common.OutputFile = None,
    report: common.MoreReports = None,
    full: Annotated[bool, typer.Option("--full", help="Text: show every run and every setting.")] = False,
    static: common.Static = False,
    samples: common.Samples = True,
    color: common.Color = None,
    *,
    settings: Config,
) -> None:
    """Judges every run of a sweep: one line per run, worst first, grouped by cause, with the settings of failing runs.

    Exit codes: 0 no finding at or above --fail-on, 1 findings, 2 wrong usage or unreadable input, 3 input not judged, 4
    internal error. With --sql: 0 if the query succeeded.
    """
    from ..fleet import page
    from ..fleet.overview import overview
    from ..fleet.unit import Job

    with common.plain_errors():
        common.chosen(settings)
        common.say_suppressions(settings)
        options = common.options(settings, output_format, output_file, color, samples=samples, static=static, full=full)
        reports = [(output_format, output_file), *map(common.report_file, report or [])]
        _refuse_formats(reports)
        with closing(_store(db, places)) as store:
            job = Job(settings, None if out is None else str(out / PAGES), samples)
            whole = _read(store, places or [], job, jobs, ray)
            read = [Path(answer.source) for answer in whole.answers if answer.fate != "no log"]
            common.refuse_inputs((path for _, path in reports), read)
            if sql is not None:
                _write_answer(store.ask(sql), output_format, output_file, options)
                raise typer.Exit
            told = overview(store, whole, places or [], plan)
            for kind, path in reports:
                _write(told, store, kind, path, options)
            if out is not None:
                _put(page.render(told, options, PAGES), out / "index.html", named=False)
    empty = _without_run(places or [], whole)
    raise typer.Exit(_exit_code(whole, Severity.of(settings.fail_on), empty))


def _store(db: Path | None, places: list[str] | None) -> Store:
    from ..fleet.store import Store

    if not places and (db is None or not db.exists()):
        raise ConfigError("pass run folders, or the --db file of an earlier call")
    atexit.unregister(gc.freeze)  # DuckDB prints a list of objects that are not collected at exit
    return Store(db)


def _read(store: Store, places: list[str], job: Job, jobs: int | None, ray: str | None) -> MergedFleet:
    """Read the fleet, fill its tables, and report its files on stderr. Raises `ReadError`."""
    from ..fleet.merge import merge_units
    from ..fleet.overview import ordered

    whole = ordered(merge_units(_judged(store, places, job, jobs, ray)))
    found = Survey([], whole.answers)
    common.note(f"{found.words()}")
    for line in found.named():
        common.note(line)
    store.fill(whole)
    return whole


def _without_run(places: list[str], whole: MergedFleet) -> bool:
    """Report the places that contain no log. Return whether there are any."""
    told = [a.source for a in whole.answers if a.fate in ("read", "second view", "unreadable", "failed")]
    empty = [place for place in places if not any(_is_inside(source, place) for source in told)]
    for place in empty:
        common.note(f"{place}: no training log found; pass the log file itself")
    return bool(empty)


def _is_inside(source: str, place: str) -> bool:
    place = place.rstrip("/") or "/"
    return place == "." or source == place or source.startswith((place.removesuffix("/") + "/", place + " ("))


def _judged(store: Store, places: list[str], job: Job, jobs: int | None, ray: str | None) -> Iterator[Judged]:
    """Yield the result of every unit, taken from the database if the files of the unit are unchanged. Read all other
    units now."""
    from rich.console import Console
    from rich.progress import track

    from ..fleet.locations import find
    from ..fleet.unit import Judged, decode
    from ..fleet.workers import mapped

    units, answers = find(places)
    known = store.known(units, job)
    fresh = [unit for unit in units if unit.name not in known]
    yield Judged([], answers, [])
    yield from known.values()
    yield from store.others(units, places, job)
    read = mapped(fresh, job, jobs=jobs, ray=ray) if fresh else iter(())
    screen = Console(stderr=True)
    for unit, document in track(
        read, "reading", len(fresh), console=screen, transient=True, disable=not screen.is_terminal
    ):
        store.remember(unit, document, job)
        yield decode(document)


def _refuse_formats(reports: list[tuple[str, Path | None]]) -> None:
    for kind, path in reports:
        if kind not in FORMATS:
            raise ConfigError(f"unknown fleet report {kind!r}; choose one of {', '.join(FORMATS)}")
        if kind == "parquet" and path is None:
            raise ConfigError("parquet cannot be printed; use --output-file or --report parquet=FILE")


def _write(told: Overview, store: Store, kind: str, path: Path | None, options: Options) -> None:
    from ..fleet import document, page, text

    if kind == "parquet":
        assert path is not None
        store.parquet(path)
        return
    written = {
        "text": lambda: text.render(told, options),
        "html": lambda: page.render(told, options),
        "json": lambda: document.render(told),
        "csv": lambda: document.table(store.flat()),
    }[kind]()
    _put(written, path)


def _write_answer(asked: Answered, kind: str, path: Path | None, options: Options) -> None:
    from ..fleet import document, text

    if kind not in ("text", "json", "csv"):
        raise ConfigError(f"--sql supports text, json and csv, not {kind}")
    how = {"text": lambda: text.answer(asked, options), "json": lambda: document.rows(asked)}
    _put(how.get(kind, lambda: document.table(asked))(), path)


def _put(text: str, path: Path | None, *, named: bool = True) -> None:
    if path is None:
        typer.echo(inert(text))
    else:
        common.replace_file(path, text + "\n", named=named)


def _exit_code(whole: MergedFleet, fail_on: Severity, empty: bool) -> int:
    """Return the exit code by the rules of `analyze`."""
    verdicts = {line.verdict for line in whole.lines}
    fates = {answer.fate for answer in whole.answers}
    return common.exit_code(
        findings=any(line.worst and Severity.of(line.worst) >= fail_on for line in whole.lines),
        broken="broken" in verdicts or "failed" in fates,
        unreadable="unreadable" in verdicts | fates,
        unjudged=empty or not whole.lines or "unjudged" in verdicts,
    )
