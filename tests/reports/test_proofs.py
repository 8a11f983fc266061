"""Responses before and after the onset of a finding, in reports."""

import copy
import json
from functools import cache

import pytest

from grpo_doctor.diagnosis.catalogue import home
from grpo_doctor.diagnosis.examine import diagnose
from grpo_doctor.diagnosis.verdict import Diagnosis
from grpo_doctor.report.model import Options, render
from grpo_doctor.report.proofs import proofs
from tests.rollouts.test_planted import run_of

SECRET = "sk-" + "a1B2" * 12


@cache
def known(task: str, drift: str) -> Diagnosis:
    return diagnose(run_of(task, drift))


def test_three_responses_before_and_three_after_the_onset_are_shown() -> None:
    found = known("search", "environment")
    (proof,) = [proof for proof in proofs(found) if proof.finding.code == "GEN012"]
    assert (len(proof.before), len(proof.after)) == (3, 3)
    assert all("TimeoutError" in text for text in proof.after)
    assert not any("TimeoutError" in text for text in proof.before)
    assert all(text.startswith(f"step {proof.finding.onset_step - 1}") for text in proof.before)


@pytest.mark.parametrize("format", ["html", "markdown"])
def test_reports_show_the_responses_side_by_side_and_leave_them_out_on_request(format: str) -> None:
    found = known("math", "loop")
    shown = render(format, [found], Options(static=True))
    assert "Responses that show DIV005" in shown
    assert "let me compute this sum once more" in shown
    without = render(format, [found], Options(static=True, samples=False))
    assert "Responses that show" not in without
    assert "let me compute this sum once more" not in without


@pytest.mark.parametrize(
    "format", ["html", "markdown", "text", "json", "summary", "github", "sarif", "junit", "gitlab"]
)
def test_no_format_shows_texts_without_samples(format: str) -> None:
    found = known("math", "loop")
    assert "compute this sum" not in render(format, [found], Options(static=True, samples=False))


@pytest.mark.parametrize("format", ["html", "markdown"])
def test_texts_are_escaped_and_secrets_removed(format: str) -> None:
    found = copy.deepcopy(known("math", "loop"))
    for samples in found.run.samples.values():
        for sample in samples:
            sample.response = f"<script>alert(1)</script> | api_key={SECRET} {sample.response}"
    shown = render(format, [found], Options(static=True))
    assert "Responses that show DIV005" in shown
    outside_code = shown if format == "html" else "\n".join(row for row in shown.splitlines() if row.startswith("|"))
    assert "<script>alert" not in outside_code
    assert SECRET not in shown


def test_the_samples_of_a_report_follow_its_schema() -> None:
    validate = pytest.importorskip("jsonschema").validate
    schema = json.loads((home("reports") / "report.schema.json").read_text(encoding="utf-8"))
    report = json.loads(render("json", [known("search", "environment")], Options()))
    validate(report, schema)
    kinds = {name for run in report["runs"] for sample in run["samples"] for name in sample}
    assert {"calls", "signs", "reference", "finish"} <= kinds
