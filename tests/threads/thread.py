"""A public issue thread as a case: the log that its numbers describe, the established cause, the outcome.

No text of a thread is kept here. The rows are written again from the posted numbers, in the format of the framework
that printed them; if a thread shows only a curve, the rows follow its described course.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from grpo_doctor.diagnosis.check import Finding, Severity
from grpo_doctor.diagnosis.examine import diagnose
from grpo_doctor.diagnosis.verdict import Diagnosis
from grpo_doctor.preflight import preflight
from grpo_doctor.readers import read
from grpo_doctor.testing import series

Outcome = Literal["caught", "symptom", "silent", "wrong"]


class Thread(NamedTuple):
    """One thread. ``names`` are the codes that name its cause; ``says`` must be in the finding if its code alone would
    be a symptom; ``symptoms`` are other codes that are true. A run that is healthy, or too short to judge, has an
    ``answer`` instead: words of the line that answers the question; no finding may then be an error."""

    at: str
    truth: str
    log: str
    names: tuple[str, ...] = ()
    says: str = ""
    symptoms: tuple[str, ...] = ()
    answer: str = ""
    file: str = "run.log"
    expect: Outcome = "caught"
    """The required result at least."""


def diagnosed(thread: Thread) -> Diagnosis:
    """Return the diagnosis of the thread's log, or of its configuration."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / thread.file
        path.write_text(thread.log, encoding="utf-8")
        return diagnose(read(path)[0]) if path.suffix == ".log" else preflight(path)


def outcome(thread: Thread) -> tuple[Outcome, Diagnosis]:
    """Return the outcome. Caught: the cause, or the answer, is reported. Symptom: something true, but not the cause.
    Silent: nothing. Wrong: the first sentence names something else."""
    diagnosis = diagnosed(thread)
    flagged = diagnosis.verdict in ("failing", "suspect")
    known = {*thread.names, *thread.symptoms}
    if flagged and diagnosis.cause not in known and not (diagnosis.cause is None and _told(diagnosis) & known):
        return "wrong", diagnosis
    if thread.answer:
        remarks = [f.message for f in diagnosis.findings if f.level is Severity.INFO]
        found = any(thread.answer in line for line in [*diagnosis.answers, *remarks])
        return ("caught" if found else "silent"), diagnosis
    named = [f for f in diagnosis.findings if f.code in thread.names and f.level >= Severity.WARNING]
    if any(thread.says in _words(finding) for finding in named):
        return "caught", diagnosis
    return ("symptom" if flagged else "silent"), diagnosis


def _told(diagnosis: Diagnosis) -> set[str]:
    return {f.code for f in diagnosis.findings if f.level >= Severity.WARNING}


def _words(finding: Finding) -> str:
    """What a reader of the finding sees: message, rivals and remedies."""
    rivals = [f"{r.name} {r.why} {r.separated_by}" for r in finding.rivals]
    remedies = [" ".join([r.title, *(s.do for s in r.steps), r.evidence]) for r in finding.remedies]
    return "\n".join([finding.message, *rivals, *remedies])


Columns = Mapping[str, str]
"""Key of the framework to words for `grpo_doctor.testing.series`: one value a row, ``?`` where a row lacks it."""


def _rows(columns: Columns) -> list[dict[str, Any]]:
    values = {key: series(words) for key, words in columns.items()}
    lengths = {key: len(v) for key, v in values.items()}
    if len(set(lengths.values())) != 1:
        raise ValueError(f"columns differ in length: {lengths}")
    return [
        {key: column[row] for key, column in values.items() if column[row] is not None}
        for row in range(max(lengths.values()))
    ]


def trl(columns: Columns, before: str = "") -> str:
    """A TRL console: one dict per row, after the initial output of the run."""
    lines = [repr({**row, "epoch": round(0.01 * n, 2)}) for n, row in enumerate(_rows(columns), 1)]
    return "\n".join([*before.splitlines(), *lines, ""])


def verl(columns: Columns, before: str = "") -> str:
    """A verl console: ``step:1 - key:value - …``."""
    lines = [
        " - ".join([f"step:{n}", *(f"{k}:{v:.6g}" for k, v in row.items())]) for n, row in enumerate(_rows(columns), 1)
    ]
    return "\n".join([*before.splitlines(), *lines, ""])


def slime(rollout: Columns, step: Columns) -> str:
    """A slime console: one dict per rollout and one per step."""
    lines: list[str] = []
    lengths = {"rollout/response_lengths": 812.5, "rollout/truncated": 0.02, "rollout/advantages": 0.0}
    for n, (one, other) in enumerate(zip(_rows(rollout), _rows(step), strict=True)):
        one = {**lengths, **one}
        lines += [f"(MegatronTrainRayActor pid=2) data.py:101 - rollout {n}: {one}"]
        lines += [f"(MegatronTrainRayActor pid=2) model.py:202 - step {n}: {other}"]
    return "\n".join([*lines, ""])


def jsonl(columns: Columns) -> str:
    """One JSON object per row, with ``step``."""
    rows = [{"step": n, **row} for n, row in enumerate(_rows(columns), 1)]
    return "\n".join([*(json.dumps(row) for row in rows), ""])


def markdown(columns: Columns) -> str:
    """The table that a notebook shows, as it is pasted into a thread; NaN as ``nan``."""
    head = ["Step", *columns]
    lines = [" | ".join(head), " | ".join(["--"] * len(head))]
    for n, row in enumerate(_rows(columns), 1):
        cells = [f"{row[key]:.6f}" if not math.isnan(row[key]) else "nan" for key in columns]
        lines.append(" | ".join([str(n), *cells]))
    return "\n".join(lines) + "\n"
