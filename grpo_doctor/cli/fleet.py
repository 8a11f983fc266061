"""``grpo-doctor fleet``: hundreds of runs as one table, and which settings separate the failing ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from ..config import ConfigError
from ..diagnosis.check import Severity
from ..readers.folder import Survey
from ..report.redaction import inert
from . import common

if TYPE_CHECKING:
    from ..fleet.merge import Gathered
    from ..fleet.overview import Overview
    from ..fleet.store import Answered, Store
    from ..fleet.unit import Job, Judged
    from ..report.model import Options

FORMATS = ("text", "html", "json", "csv", "parquet")
PAGES = "runs"
"""Folder below ``--out`` that holds a page for each run."""


Places: TypeAlias = Annotated[
    list[str] | None,
    typer.Argument(help="Folders of runs, logs, or addresses such as s3://bucket/sweep.", show_default=False),
]
Out: TypeAlias = Annotated[
    Path | None, typer.Option("--out", help="Write index.html here, and a page for each run beside it.")
]
Database: TypeAlias = Annotated[
    Path | None, typer.Option("--db", help="Keep the table in this DuckDB file; the next call reads what changed.")
]
Question: TypeAlias = Annotated[
    str | None, typer.Option("--sql", help="Ask the tables runs, findings, settings, levels and files; reads only.")
]
Plan: TypeAlias = Annotated[
    float | None, typer.Option("--plan", help="How many seeds and steps show a gain of this much.", min=0)
]
Jobs: TypeAlias = Annotated[
    int | None, typer.Option("--jobs", "-j", help="Processes that read.", min=1, show_default="one a core")
]
Cluster: TypeAlias = Annotated[
    str | None, typer.Option("--ray", help="Read on the Ray cluster of this address; auto is the one at hand.")
]
Format: TypeAlias = Annotated[str, typer.Option("--output-format", "-f", help="text, html, json, csv or parquet.")]
Color: TypeAlias = Annotated[
    bool | None, typer.Option("--color/--no-color", help="Colours in text.", show_default="on a terminal")
]


def fleet(
    places: Places = None,
    out: Out = None,
    db: Database = None,
    sql: Question = None,
    plan: Plan = None,
    jobs: Jobs = None,
    ray: Cluster = None,
    output_format: Format = "text",
    output_file: Annotated[Path | None, typer.Option("--output-file", "-o", help="Write the report here.")] = None,
    report: common.MoreReports = None,
    full: Annotated[bool, typer.Option("--full", help="Text: every run and every setting.")] = False,
    static: Annotated[bool, typer.Option("--static", help="HTML without any script.")] = False,
    fail_on: common.FailOn = None,
    select: common.Select = None,
    ignore: common.Ignore = None,
    map_: common.Mapped = None,
    set_: common.Declared = None,
    config: common.ConfigFile = None,
    trust_checks: common.TrustChecks = False,
    seconds: common.Seconds = None,
    megabytes: common.Megabytes = None,
    samples: Annotated[bool, typer.Option("--samples/--no-samples", help="Texts of responses in the pages.")] = True,
    color: Color = None,
) -> None:
    """Judges every run of a sweep: one line per run, worst first, grouped by cause, with the settings of failing runs.

    Exit codes: 0 nothing at or above --fail-on, 1 findings, 2 wrong use or unreadable input, 3 nothing could be
    judged, 4 an error of grpo-doctor itself. With --sql: 0 where the question was answered.
    """
    from ..fleet import page
    from ..fleet.overview import overview
    from ..fleet.unit import Job

    with common.plain_errors():
        settings = common.settings(
            config, select, ignore, map_, set_, fail_on, seconds, megabytes, trust_checks=trust_checks
        )
        common.chosen(settings)
        common.say_suppressions(settings)
        options = common.options(output_format, output_file, samples, color, False, static=static, full=full)
        reports = [(output_format, output_file), *_more(report or [])]
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
        raise ConfigError("name folders of runs, or the --db of an earlier call")
    return Store(db)


def _read(store: Store, places: list[str], job: Job, jobs: int | None, ray: str | None) -> Gathered:
    """The fleet, its tables made and its files answered for on stderr. Raises `ReadError`."""
    from ..fleet.merge import gathered
    from ..fleet.overview import ordered

    whole = ordered(gathered(_judged(store, places, job, jobs, ray)))
    found = Survey([], whole.answers)
    common.say(f"grpo-doctor: {found.words()}", err=True)
    for line in found.named():
        common.say(f"grpo-doctor: {line}", err=True)
    store.fill(whole)
    return whole


def _without_run(places: list[str], whole: Gathered) -> bool:
    """Whether no run came of a place that was named, which is said."""
    told = [a.source for a in whole.answers if a.fate in ("read", "second view", "unreadable", "failed")]
    empty = [place for place in places if not any(_lies_in(source, place) for source in told)]
    for place in empty:
        common.say(f"grpo-doctor: {place}: no training log was found in it; name the file", err=True)
    return bool(empty)


def _lies_in(source: str, place: str) -> bool:
    place = place.rstrip("/") or "/"
    return place == "." or source == place or source.startswith((place.removesuffix("/") + "/", place + " ("))


def _judged(store: Store, places: list[str], job: Job, jobs: int | None, ray: str | None) -> Iterator[Judged]:
    """What came of every unit: from the database where its files have not changed, else read now."""
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


def _more(words: list[str]) -> list[tuple[str, Path | None]]:
    return [(kind, Path(path)) for kind, path in (common.pair("--report", word) for word in words)]


def _refuse_formats(reports: list[tuple[str, Path | None]]) -> None:
    for kind, path in reports:
        if kind not in FORMATS:
            raise ConfigError(f"no report of a fleet is called {kind!r}; there are {', '.join(FORMATS)}")
        if kind == "parquet" and path is None:
            raise ConfigError("parquet is written to a file; name it with --output-file or --report parquet=FILE")


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
        raise ConfigError(f"--sql answers as text, json or csv, not as {kind}")
    how = {"text": lambda: text.answer(asked, options), "json": lambda: document.rows(asked)}
    _put(how.get(kind, lambda: document.table(asked))(), path)


def _put(text: str, path: Path | None, *, named: bool = True) -> None:
    if path is None:
        typer.echo(inert(text))
    else:
        common.replace_file(path, text + "\n", named=named)


def _exit_code(whole: Gathered, fail_on: Severity, empty: bool) -> int:
    """As of `analyze`: 1 if any run has findings, else 4 if grpo-doctor failed on any, else 2 if any input was
    unreadable, else 3 if any run was unjudged or an input gave none, else 0."""
    verdicts = {line.verdict for line in whole.lines}
    fates = {answer.fate for answer in whole.answers}
    if any(line.worst and Severity.of(line.worst) >= fail_on for line in whole.lines):
        return common.FINDINGS
    if "broken" in verdicts or "failed" in fates:
        return common.BROKEN
    if "unreadable" in verdicts or "unreadable" in fates:
        return common.WRONG
    return common.UNJUDGED if empty or not whole.lines or "unjudged" in verdicts else common.CLEAN
