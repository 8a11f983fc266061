"""Reads and diagnoses the runs of one unit of a fleet, and reduces each run to a short record.

A worker may run in a separate process or on another machine, so inputs and results are plain data. An error affects
only one run or file, and is reported in the row of that run or file.
"""

from __future__ import annotations

import hashlib
import math
import re
import tempfile
import traceback
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from .. import __version__
from ..advisories.in_logs import diagnose_with_advisories
from ..config import Config
from ..diagnosis.catalogue import Catalogue, load
from ..diagnosis.check import Finding
from ..diagnosis.verdict import Diagnosis, weight
from ..limits import allow
from ..readers import ReadError
from ..readers import survey as survey_input
from ..readers.folder import Survey, survey, survey_files
from ..readers.input import Input
from ..readers.reader import read_input
from ..readers.remote import Renaming
from ..readers.views import COMPARED, view_rows
from ..readers.walk import Answer
from ..report import output
from ..report.charts import decimated
from ..report.model import Options, leading, presentable, render
from ..report.redaction import one_line, redact
from ..run import Run
from ..series.noise_model import noise_of
from ..series.trajectory import TURNED
from ..series.trend import LEAST, WINDOW
from .declared import Settings, settings_of
from .locations import Stamp, Unit, digest, fetch

DRAWN = 60
"""Maximum number of points of a run's stored curve."""
FORMAT = 4
"""Version of the format of stored results. Results of another version are recomputed."""


class Job(msgspec.Struct, frozen=True):
    """Options for all units: the configuration of the command, and the folder for the report of each run."""

    config: Config
    reports: str | None = None
    samples: bool = True

    @property
    def key(self) -> str:
        """Return a digest of everything, except the files, that determines the result of a unit."""
        told = msgspec.structs.replace(self.config, fail_on="", accept=[], origin="", trust_checks=False)
        rules = msgspec.json.encode(told, enc_hook=str) + f"{FORMAT} {__version__}".encode()
        return hashlib.blake2b(rules, digest_size=16).hexdigest()


class Level(msgspec.Struct, frozen=True, array_like=True):
    """The final level of a success series, its best level, and the error of the final level.

    Attributes:
        now: mean of the last ``rows`` values, which are the last quarter of the run.
        best: the highest mean of ``rows`` successive values, or the lowest mean for a loss.
        error: standard error of ``now`` under an AR(1) model; NaN for fewer than `LEAST` values.
        rows: number of values in ``now``.
    """

    now: float
    best: float
    error: float
    rows: int


class Found(msgspec.Struct, frozen=True, array_like=True):
    """A finding of a run, as stored in its row."""

    code: str
    name: str
    kind: str
    severity: str
    confidence: str
    role: str
    onset_step: int
    last_step: int
    cleared: bool
    message: str


class Line(msgspec.Struct, kw_only=True):
    """One run of a fleet, or an input without a run.

    ``verdict`` is the verdict of the diagnosis, ``unreadable`` for an input that could not be read, or ``broken`` after
    an internal error. For ``unreadable`` and ``broken``, the headline is the reason. ``view`` contains the values that
    identify duplicates, and ``broken`` lists the rows and fields of ``view`` that are not finite.
    """

    source: str
    verdict: str
    headline: str
    unit: str = ""
    format: str = ""
    run_type: str = "none"
    steps: int = 0
    first_step: int | None = None
    last_step: int | None = None
    cause: str | None = None
    cause_name: str = ""
    severity: str = ""
    confidence: str = ""
    onset_step: int | None = None
    worst: str = ""
    settings: Settings = {}
    levels: dict[str, Level] = {}
    findings: list[Found] = []
    curve: str = ""
    curve_steps: list[float] = []
    curve_values: list[float] = []
    view_steps: list[int] = []
    view: dict[str, list[float]] = {}
    broken: list[tuple[int, str]] = []
    report: str = ""
    twin: str = ""


class Judged(msgspec.Struct):
    """The result of a unit: its rows, a status for every file, and the state of the files when they were read."""

    lines: list[Line]
    answers: list[Answer]
    files: list[Stamp]


def judge(unit: Unit, job: Job) -> Judged:
    """Read and diagnose a unit. Errors become results."""
    allow(job.config.budget())
    try:
        if not unit.remote:
            files = [msgspec.structs.replace(file, digest=digest(Path(file.path))) for file in unit.files]
            return Judged(*_lines(unit, job, "", str), files)
        with tempfile.TemporaryDirectory(prefix="grpo-doctor-") as folder:
            named = fetch(unit, Path(folder))
            return Judged(*_lines(unit, job, folder + "/", named), unit.files)
    except Exception as error:  # noqa: BLE001 - an error in one unit must not affect other units
        return failed(unit, _words(error))


def failed(unit: Unit, why: str) -> Judged:
    """Return the result of a unit that could not be judged."""
    answers = [Answer(_address(unit, file.path), "unreadable", why) for file in unit.logs]
    return Judged([Line(source=unit.name, unit=unit.name, verdict="broken", headline=why)], answers, unit.files)


def _address(unit: Unit, path: str) -> str:
    return unit.name.split("://")[0] + "://" + path.lstrip("/") if unit.remote else path


def _words(error: Exception) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return one_line(f"{type(error).__name__}: {error} ({Path(frame.filename).name}:{frame.lineno})")


def _lines(unit: Unit, job: Job, folder: str, named: Renaming) -> tuple[list[Line], list[Answer]]:
    """Return the rows of a unit, and the status of each file. For a remote unit, ``folder`` contains copies of the
    files, and ``named`` restores their remote names."""
    found = _survey(unit, job, folder)
    catalogue = load(tuple(job.config.checks)).select(job.config.select, job.config.ignore)
    configurations = [Path(folder + file.path.lstrip("/") if folder else file.path) for file in unit.configurations]
    beside = set(map(str, configurations))
    answers = [Answer(named(a.source), a.fate, named(a.why)) for a in found.answers if a.source not in beside]
    lines = [Line(source=a.source, unit=unit.name, verdict="unreadable", headline=one_line(a.why))
             for a in answers if a.fate == "unreadable"]  # fmt: skip
    for run in found.runs:
        run.source = named(run.source)
        run.notes = [named(note) for note in run.notes]
        try:
            lines.append(_line(unit, run, configurations, catalogue, job))
        except Exception as error:  # noqa: BLE001 - an error in one run must not affect other runs
            lines.append(Line(source=run.source, unit=unit.name, verdict="broken", headline=_words(error)))
    return lines, answers


def _survey(unit: Unit, job: Job, folder: str) -> Survey:
    def read(path: Path) -> list[Run]:
        return read_input(Input(path, job.config.map))

    if folder:
        return survey(Path(folder), read)
    paths = [Path(file.path) for file in unit.logs]
    if len(paths) > 1 and all(path.parent.name == "metrics" for path in paths):  # MLflow: all metrics of a run
        paths = paths[:1]
    if len(paths) == 1 and unit.name == str(paths[0]):  # the user named this file, so errors are reported
        try:
            return survey_input(paths[0], job.config.map)
        except ReadError as error:
            why = str(error).removeprefix(f"{paths[0]}: ")
            return Survey([], [Answer(str(paths[0]), "unreadable", why)])
    return survey_files([(path, None) for path in paths], read)


def _line(unit: Unit, run: Run, configurations: list[Path], catalogue: Catalogue, job: Job) -> Line:
    own = dict(run.settings)
    run.settings.update(job.config.settings)
    diagnosis = diagnose_with_advisories(run, catalogue, job.config.thresholds)
    shown = presentable(diagnosis, samples=False)
    head = leading(shown) if diagnosis.verdict in ("failing", "suspect") else None
    curve = next((name for name in ("reward_mean", "success_rate", "eval_score", "loss") if name in run.columns), "")
    steps, values = _curve(run, curve)
    rows = view_rows(run)
    not_finite = run.not_finite()
    return Line(
        source=shown.source,
        unit=unit.name,
        verdict=diagnosis.verdict,
        headline=shown.headline,
        format=run.format,
        run_type=run.run_type,
        steps=diagnosis.steps,
        first_step=diagnosis.first_step,
        last_step=diagnosis.last_step,
        cause=head.code if head else None,
        cause_name=head.name if head else "",
        severity=head.severity if head else "",
        confidence=head.confidence if head else "",
        onset_step=diagnosis.onset_step if head else None,
        worst=str(worst) if (worst := diagnosis.worst) is not None else "",
        settings=settings_of(own | job.config.settings, configurations, _name(unit, run)),
        levels=_levels(diagnosis),
        findings=[_found(finding) for finding in shown.findings],
        curve=curve,
        curve_steps=steps,
        curve_values=values,
        view_steps=run.steps[rows].tolist(),
        view={name: run.columns[name][rows].tolist() for name in COMPARED if name in run.columns},
        broken=[(at, name) for at, row in enumerate(rows) for name in COMPARED if (row, name) in not_finite],
        report=_report(diagnosis, job),
    )


def _found(f: Finding) -> Found:
    told = (f.code, f.name, f.kind, str(weight(f)), f.confidence, f.role)
    return Found(*told, f.onset_step, f.last_step, f.cleared, f.message)


def _name(unit: Unit, run: Run) -> str:
    """Return the part of a run's name that may contain settings: the unit's folder, and the path within the folder."""
    within = run.source.removeprefix(unit.name)
    return f"{Path(unit.name).name}{within}"


def _levels(diagnosis: Diagnosis) -> dict[str, Level]:
    found = {}
    for name in diagnosis.success:
        column = diagnosis.run.column(name)
        values = column[np.isfinite(column)] if column is not None else np.empty(0)
        if not len(values):
            continue
        rows = min(max(len(values) // 4, WINDOW), len(values))
        error = noise_of(values).error(rows) if len(values) >= LEAST else math.nan
        sums = np.concatenate(([0.0], np.cumsum(values)))
        means = (sums[rows:] - sums[:-rows]) / rows
        best = means.min() if name in TURNED else means.max()
        found[name] = Level(float(means[-1]), float(best), error, rows)
    return found


def _curve(run: Run, field: str) -> tuple[list[float], list[float]]:
    """Return the steps and the values of a run's curve, reduced to at most `DRAWN` points. If the steps go back, row
    numbers replace the steps."""
    if not field:
        return [], []
    column = run.columns[field]
    known = np.isfinite(column)
    x = run.steps if (np.diff(run.steps) >= 0).all() else np.arange(len(run))
    steps, values = decimated(x[known], column[known], DRAWN // 2)
    return [float(step) for step in steps], [float(f"{value:.5g}") for value in values]


def _report(diagnosis: Diagnosis, job: Job) -> str:
    """Write the page of a run, and return its file name; empty if the call writes no pages."""
    if job.reports is None:
        return ""
    name = page_name(diagnosis.source)
    folder = Path(job.reports)
    text = render("html", [diagnosis], Options(samples=job.samples, back="../index.html"))
    output.replace(folder / name, text + "\n", named=False)
    return name


def page_name(source: str) -> str:
    """Return a unique file name for the page of a run, with secrets redacted."""
    words = re.sub(r"[^A-Za-z0-9.]+", "-", redact(source))[-60:].strip("-.")
    digest = hashlib.blake2b(source.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
    return f"{words}-{digest}.html"


def encode(judged: Judged) -> bytes:
    """Encode the result of a unit for transfer and storage. File names that are not UTF-8 are escaped."""
    try:
        return msgspec.msgpack.encode(judged, enc_hook=str)  # notes are subclasses of str
    except UnicodeEncodeError:
        return msgspec.msgpack.encode(_escaped(msgspec.to_builtins(judged, enc_hook=str)))


def _escaped(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_escaped(key): _escaped(item) for key, item in value.items()}
    return [_escaped(item) for item in value] if isinstance(value, list | tuple) else value


def decode(document: bytes) -> Judged:
    """Decode the result of a unit. Raises `msgspec.DecodeError` if the document is invalid."""
    return msgspec.msgpack.decode(document, type=Judged)
