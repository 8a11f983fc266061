"""Printed severities, verdict, headline and exit code agree in every report of every available run."""

from __future__ import annotations

import gzip
import json
from functools import cache
from itertools import groupby
from pathlib import Path

import pytest

from grpo_doctor.diagnosis.check import Severity
from grpo_doctor.diagnosis.examine import diagnose
from grpo_doctor.diagnosis.verdict import Diagnosis
from grpo_doctor.record import decode
from grpo_doctor.report.model import Options, render
from grpo_doctor.run import run_of
from tests.properties import disagreements

LAB = Path(__file__).parent / "lab_runs.jsonl.gz"
"""Twelve runs of the fault experiments (seed 0), untreated: the numbers of their records to three digits."""


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


@pytest.mark.parametrize("kind", ["text", "markdown", "json"])
def test_cleared_findings_are_printed_as_past(kind: str) -> None:
    over = next(d for d in lab().values() if any(f.cleared and f.level >= Severity.ERROR for f in d.findings))
    text = render(kind, [over], Options(full=True))
    if kind == "json":
        found = json.loads(text)["runs"][0]["findings"]
        assert any(f["cleared"] and f["severity"] in ("error", "critical") for f in found)
    else:
        assert "past error" in text or "past critical" in text
