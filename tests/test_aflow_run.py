"""The run in training_p30.log of beita6969/colab-grpo: its log names the generation mode, not the group size that its
post-mortem blames."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from grpo_doctor.cli import app
from tests import aflow_log
from tests.corpus_path import P30, needs_corpus

pytestmark = needs_corpus
STEPS = P30.with_name("steps.csv")


def analyze(path: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    result = CliRunner().invoke(app, ["analyze", str(path), "--output-format", "json", *arguments])
    run: dict[str, Any] = json.loads(result.stdout)["runs"][0]
    run["by_code"] = {finding["code"]: finding for finding in run["findings"]}
    return result.exit_code, run


@pytest.fixture(scope="module")
def report() -> tuple[int, dict[str, Any]]:
    return analyze(P30)


def test_the_cause_is_the_generation_mode(report: tuple[int, dict[str, Any]]) -> None:
    code, run = report
    assert (code, run["verdict"], run["cause"], run["steps"]) == (1, "failing", "GEN001", 95)
    cause = run["findings"][0]
    assert cause["code"] == "GEN001"
    assert (cause["severity"], cause["confidence"], cause["role"]) == ("critical", "high", "cause")
    assert (cause["onset_step"], cause["detected_step"]) == (5, 5)
    assert cause["evidence"]["line"] == 1877
    assert cause["remedies"][0]["id"] == "generate-in-eval-mode"
    assert {step["for"] for step in cause["remedies"][0]["steps"]} >= {"trl", "by-hand"}


def test_the_evidence_of_the_association(report: tuple[int, dict[str, Any]]) -> None:
    finding = report[1]["by_code"]["UPD001"]
    evidence = finding["evidence"]
    assert finding["detected_step"] == 24
    assert {k: evidence[k] for k in ("steps", "updates", "collapses", "collapses_else", "unexposed")} == {
        "steps": 95, "updates": 38, "collapses": 37, "collapses_else": 0, "unexposed": 56,
    }  # fmt: skip
    assert [evidence[k] for k in ("hit", "at_risk", "hit_else", "at_risk_else")] == [27, 28, 0, 29]
    assert evidence["p"] == pytest.approx(2.0e-15, rel=0.01)
    assert evidence["shift_p"] == pytest.approx(1 / 94)
    assert evidence["invalid_after_update"] == pytest.approx(0.996, abs=5e-4)
    assert evidence["invalid_otherwise"] == pytest.approx(0.051, abs=5e-4)


def test_a_finding_that_is_not_the_cause_is_a_note(report: tuple[int, dict[str, Any]]) -> None:
    found = report[1]["by_code"]
    for code in ("ADV001", "KL003", "CFG004"):
        assert found[code]["role"] == "note", code
    # four in five groups with zero variance on most steps are a separate outcome, which GEN001 does not explain
    assert (found["ADV003"]["role"], found["ADV003"]["severity"]) == ("outcome", "warning")
    assert found["ADV012"]["role"] == "symptom"
    assert found["ADV001"]["severity"] == "warning"
    assert "does not by itself cause a collapse" in found["ADV001"]["message"]
    withheld = {w["id"]: w["because"] for finding in found.values() for w in finding["withheld"]}
    assert {"raise-group-size", "lower-learning-rate", "drop-std-normalisation"} <= withheld.keys()
    assert withheld["raise-group-size"].startswith("GEN001")
    assert "DIV002" not in found
    assert found["ADV003"]["evidence"]["whole_run"] == pytest.approx(0.825, abs=5e-4)


def test_output_tables(report: tuple[int, dict[str, Any]]) -> None:
    text = CliRunner().invoke(app, ["analyze", str(P30), "--full"]).stdout
    assert "570" in text
    assert "20 distinct" in text
    assert "### Step 1" not in text, "the executor's answer is not the policy's output"


def test_without_its_warning_the_cause_is_concluded(tmp_path: Path) -> None:
    log = tmp_path / "cut.log"
    kept = [line for line in P30.read_text(encoding="utf-8").splitlines() if "incompatible with gradient" not in line]
    log.write_text("\n".join(kept), encoding="utf-8")
    _, run = analyze(log)
    cause = run["by_code"]["GEN001"]
    assert (run["cause"], cause["confidence"], cause["role"]) == ("GEN001", "medium", "cause")
    assert any("probe GEN001" in rival["separated_by"] for f in run["findings"] for rival in f["rivals"])


def test_a_log_of_the_same_format_gives_the_same_figures(tmp_path: Path, report: tuple[int, dict[str, Any]]) -> None:
    _, run = analyze(aflow_log.write(tmp_path / "again.log", aflow_log.rows(STEPS)))
    for key in ("updates", "collapses", "hit", "at_risk", "invalid_after_update", "invalid_otherwise"):
        assert run["by_code"]["UPD001"]["evidence"][key] == report[1]["by_code"]["UPD001"]["evidence"][key]
    assert run["by_code"]["ADV003"]["evidence"]["share"] == report[1]["by_code"]["ADV003"]["evidence"]["share"]
    assert run["cause"] == "GEN001"


@pytest.mark.parametrize("seed", range(5))
def test_collapses_that_do_not_follow_updates_are_not_blamed_on_them(tmp_path: Path, seed: int) -> None:
    steps = aflow_log.rows(STEPS)
    outputs = [row["n_fallback"] for row in steps]
    random.Random(seed).shuffle(outputs)
    for row, fallback in zip(steps, outputs, strict=True):
        row["n_fallback"] = fallback
    _, run = analyze(aflow_log.write(tmp_path / "shuffled.log", steps, warning=False))
    assert not {"GEN001", "UPD001"} & run["by_code"].keys()
