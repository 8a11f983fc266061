"""Printed severities, verdict, headline and exit code say one thing, in every report of every run that is at hand."""

from __future__ import annotations

import gzip
import json
from functools import cache
from itertools import groupby
from pathlib import Path

import pytest

from grpo_doctor.cli.analyze import Outcome, exit_code
from grpo_doctor.diagnosis.check import Severity
from grpo_doctor.diagnosis.examine import diagnose
from grpo_doctor.diagnosis.verdict import Diagnosis
from grpo_doctor.readers import ReadError, read
from grpo_doctor.record import decode
from grpo_doctor.report.model import Options, render
from grpo_doctor.run import run_of
from tests.corpus import labels
from tests.corpus_path import CORPUS, needs_corpus

LAB = Path(__file__).parent / "lab_runs.jsonl.gz"
"""Twelve runs of the lab (seed 0), left alone: the numbers of their records to three digits."""
CODES = {"failing": 1, "suspect": 0, "healthy": 0, "unproven": 0, "unjudged": 3}


def disagreements(diagnosis: Diagnosis) -> list[str]:
    """What one report says that another part of it denies."""
    holds = [f for f in diagnosis.findings if not f.cleared]
    worst = max((f.level for f in holds), default=Severity.INFO)
    verdict, out = diagnosis.verdict, []
    if (worst >= Severity.ERROR) != (verdict == "failing"):
        out.append(f"{verdict}, but the worst that holds is {worst}")
    if (worst is Severity.WARNING) != (verdict == "suspect"):
        out.append(f"{verdict}, but the worst that holds is {worst}")
    if verdict in ("healthy", "unproven") and diagnosis.cause:
        out.append(f"{verdict}, but {diagnosis.cause} heads the report")
    head = diagnosis.finding(diagnosis.cause) if diagnosis.cause else None
    told = diagnosis.finding(diagnosis.outcome) if diagnosis.outcome else None
    first = told or head  # the cause of what still holds may itself be over
    if first is not None and first.cleared:
        out.append(f"{first.code} heads the report and is over")
    if verdict == "failing" and not any(f is not None and f.level >= Severity.ERROR for f in (told, head)):
        out.append(f"failing, headed by {first.code if first else 'nothing'}")
    words = (head.message.rstrip("."), f"because of {head.code}: ") if head is not None else ()
    if words and not any(said in diagnosis.headline for said in words):
        out.append(f"{diagnosis.cause} is the cause, and the headline does not say so")
    if exit_code(Outcome([diagnosis]), Severity.ERROR) != CODES[verdict]:
        out.append(f"{verdict}, but the exit code is {exit_code(Outcome([diagnosis]), Severity.ERROR)}")
    return out


@cache
def corpus() -> list[tuple[str, Diagnosis]]:
    out = []
    for label in labels():
        try:
            runs = read(CORPUS / label["file"])
        except ReadError:
            continue
        out += [(label["id"], diagnose(run)) for run in runs]
    return out


@cache
def lab() -> dict[str, Diagnosis]:
    rows = [json.loads(line) for line in gzip.decompress(LAB.read_bytes()).splitlines()]
    runs = groupby(rows, key=lambda row: str(row["fault"]))
    return {
        fault: diagnose(run_of([decode(json.dumps(row["record"])) for row in of_one], source=fault))
        for fault, of_one in runs
    }


def test_no_report_of_a_run_of_the_lab_denies_itself() -> None:
    wrong = [f"{fault}: {what}" for fault, diagnosis in lab().items() for what in disagreements(diagnosis)]
    assert wrong == []
    assert len(lab()) == 12
    assert {"failing", "suspect"} <= {diagnosis.verdict for diagnosis in lab().values()}


@needs_corpus
def test_no_report_of_a_real_log_denies_itself() -> None:
    wrong = [f"{name}: {what}" for name, diagnosis in corpus() for what in disagreements(diagnosis)]
    assert wrong == []
    assert len(corpus()) > 150


@needs_corpus
@pytest.mark.parametrize("kind", ["text", "markdown", "json"])
def test_what_is_over_is_printed_as_past(kind: str) -> None:
    over = next(d for _, d in corpus() if any(f.cleared and f.level >= Severity.ERROR for f in d.findings))
    text = render(kind, [over], Options(full=True))
    if kind == "json":
        found = json.loads(text)["runs"][0]["findings"]
        assert any(f["cleared"] and f["severity"] in ("error", "critical") for f in found)
    else:
        assert "was error" in text or "was critical" in text
