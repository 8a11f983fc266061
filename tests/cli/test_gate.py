"""The gate: what passes, what fails, and that it never passes without data."""

import html
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from jsonschema import validate
from typer.testing import CliRunner, Result
from xmlschema import XMLSchema

from grpo_doctor.cli import app
from grpo_doctor.cli.gate import BASELINE
from grpo_doctor.diagnosis.catalogue import home
from grpo_doctor.record import RecordWriter, StepRecord
from tests.cli.runs import write_run
from tests.corpus_path import CORPUS, needs_corpus


def gate(*words: object) -> Result:
    return CliRunner().invoke(app, ["gate", *map(str, words)])


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)


@pytest.fixture
def good(tmp_path: Path) -> Path:
    return write_run(tmp_path / "good.jsonl", collapsed=False)


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    return write_run(tmp_path / "bad.jsonl", collapsed=True)


def test_one_line_a_run_and_the_exit_code_of_the_worst(good: Path, bad: Path) -> None:
    result = gate(good, bad)
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert [line.split()[0] for line in lines[:2]] == ["pass", "FAIL"]
    assert "GRD001 nan-or-inf since step 30" in lines[1]
    assert lines[2] == "2 runs: 1 fail, 1 pass"
    assert gate(good).exit_code == 0


def test_exit_code_is_3_without_a_run_and_2_if_unreadable(tmp_path: Path, good: Path, bad: Path) -> None:
    (empty := tmp_path / "empty.log").write_text("")
    assert gate(empty).exit_code == 3
    assert gate(good, empty).exit_code == 3
    assert gate(tmp_path / "absent.log").exit_code == 2
    assert gate(bad, empty, tmp_path / "absent.log").exit_code == 1


def test_required_learning_without_evidence_fails(tmp_path: Path, good: Path) -> None:
    assert gate(good, "--require", "learning").exit_code == 0
    flat = tmp_path / "flat.jsonl"
    with RecordWriter(flat) as writer:
        for step in range(60):
            writer.write(StepRecord(step=step, reward_mean=0.3 + 0.2 * (step % 3), grad_norm=0.5))
    result = gate(flat)
    assert result.exit_code == 0
    assert "unproven" in result.stdout
    result = gate(flat, "--require", "learning")
    assert result.exit_code == 1
    assert "required: learning, but there is no evidence of it" in result.stdout


def test_a_required_check_that_could_not_run_fails(good: Path) -> None:
    result = gate(good, "--require", "KL001")
    assert result.exit_code == 1
    assert "required, but skipped: KL001 (needs kl" in result.stdout
    assert gate(good, "--require", "GRD001").exit_code == 0
    assert gate(good, "--require", "XYZ999").exit_code == 2


def test_too_few_steps_are_unjudged(good: Path) -> None:
    assert gate(good, "--min-steps", 60).exit_code == 0
    result = gate(good, "--min-steps", 61)
    assert result.exit_code == 3
    assert "60 steps, fewer than --min-steps 61" in result.stdout


def test_a_baseline_lets_known_findings_pass_until_a_new_one_appears(tmp_path: Path, bad: Path) -> None:
    baseline = tmp_path / "baseline.json"
    assert gate(bad, "--baseline", baseline).exit_code == 2
    assert gate(bad, "--baseline", baseline, "--write-baseline").exit_code == 0
    assert gate(bad, "--baseline", baseline).exit_code == 0
    known = json.loads(baseline.read_text())
    known["findings"] = [entry for entry in known["findings"] if entry["code"] != "GRD001"]
    baseline.write_text(json.dumps(known))
    result = gate(bad, "--baseline", baseline)
    assert result.exit_code == 1
    assert "GRD001" in result.stdout


def test_vanished_findings_are_named_and_dropped(tmp_path: Path, bad: Path) -> None:
    baseline = tmp_path / "baseline.json"
    gate(bad, "--baseline", baseline, "--write-baseline")
    write_run(bad, collapsed=False)
    assert "in the baseline, not found: " in gate(bad, "--baseline", baseline).stdout
    gate(bad, "--baseline", baseline, "--write-baseline")
    assert json.loads(baseline.read_text())["findings"] == []


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": "other"}', '{"schema": "grpo-doctor/baseline/1"}'])
def test_a_broken_baseline_is_one_line(tmp_path: Path, good: Path, text: str) -> None:
    (baseline := tmp_path / "baseline.json").write_text(text)
    result = gate(good, "--baseline", baseline)
    assert result.exit_code == 2
    assert "not a grpo-doctor baseline" in result.output


def test_accepted_findings_pass_and_unused_acceptances_are_reported(tmp_path: Path, bad: Path) -> None:
    codes = {line.split()[0] for line in CliRunner().invoke(app, ["checks"]).stdout.splitlines() if line[:1].isupper()}
    accept = "\n".join(
        f'[[accept]]\ncode = "{code}"\nreason = "known until #12"\nuntil = 2999-12-31' for code in sorted(codes)
    )
    (tmp_path / "grpo-doctor.toml").write_text(accept)
    result = gate(bad)
    assert result.exit_code == 0
    assert "note     accepted finding KL001 did not occur (reason: known until #12); remove the entry" in result.stdout
    assert "accepted finding GRD001" not in result.stdout


def test_an_acceptance_needs_a_reason(tmp_path: Path, bad: Path) -> None:
    (tmp_path / "grpo-doctor.toml").write_text('[[accept]]\ncode = "GRD001"\nuntil = 2999-12-31\n')
    result = gate(bad)
    assert result.exit_code == 2
    assert "reason" in result.output


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ('reason = "known"', "missing required field `until`"),
        ('reason = " "\nuntil = 2999-12-31', "Expected `str` matching regex"),
        ('reason = "known"\nuntil = "soon"', "Invalid RFC3339 encoded date"),
    ],
)
def test_acceptance_needs_a_reason_and_an_end_date(tmp_path: Path, bad: Path, entry: str, said: str) -> None:
    (tmp_path / "grpo-doctor.toml").write_text(f'[[accept]]\ncode = "GRD001"\n{entry}\n')
    result = gate(bad)
    assert result.exit_code == 2
    assert said in result.stderr
    assert result.stderr.count("\n") == 1


def test_expired_acceptance_has_no_effect_and_is_named(tmp_path: Path, bad: Path) -> None:
    (tmp_path / "grpo-doctor.toml").write_text('[[accept]]\ncode = "GRD001"\nreason = "known"\nuntil = 2001-01-01\n')
    result = gate(bad)
    assert result.exit_code == 1
    assert "GRD001 in *: known (until 2001-01-01; it no longer has an effect)" in result.stdout


SILENT = """
select = ["GRD", "ENT"]
ignore = ["GRD001"]
[thresholds.ENT001]
spent_below_share = 0.2
[map]
loss = "kl"
[[accept]]
code = "GEN001"
reason = "known until #12"
until = 2999-12-31
[[accept]]
code = "GEN002"
reason = "over"
until = 2001-01-01
"""
NAMED = (
    "GRD, ENT", "GRD001", "ENT001.spent_below_share = 0.2", "loss is read as kl", "known until #12", "2001-01-01",
    "b.json: 0 known findings",
)  # fmt: skip


@pytest.mark.parametrize("name", ["text", "markdown", "html", "json", "sarif", "junit", "github", "summary", ""])
def test_whatever_can_hide_a_finding_is_named_in_the_gate_and_every_report(
    tmp_path: Path, good: Path, name: str
) -> None:
    (tmp_path / "grpo-doctor.toml").write_text(SILENT)
    (tmp_path / "b.json").write_text(json.dumps({"schema": BASELINE, "findings": []}))
    result = gate(good, "--baseline", "b.json", *(["--report", f"{name}=out"] if name else []))
    text = (tmp_path / "out").read_text() if name else result.stdout
    plain = " ".join(html.unescape(text).replace("\\", "").split())
    assert [words for words in NAMED if words not in plain] == []
    if name == "json":
        validate(json.loads(text), json.loads((home("reports") / "report.schema.json").read_text()))
    if name == "junit":
        XMLSchema(str(home("tests") / "reports" / "junit-10.xsd")).validate(text)


def test_healthy_line_names_metrics_that_are_not_finite_any_longer(tmp_path: Path, bad: Path) -> None:
    write_run(bad, collapsed=False)
    rows = [json.loads(line) for line in bad.read_text().splitlines()]
    bad.write_text("\n".join(json.dumps(row | ({"loss": "NaN"} if row["step"] >= 30 else {})) for row in rows))
    result = gate(bad, "--ignore", "GRD001", "-f", "text")
    assert result.exit_code == 0
    assert "; loss has not been finite since step 30" in result.stderr
    assert "But loss has not been finite since step 30." in " ".join(result.stdout.split())
    rows[-1]["loss"] = 0.1
    bad.write_text("\n".join(map(json.dumps, rows)))
    assert "been finite" not in gate(bad, "--ignore", "GRD001").output


def test_baseline_keeps_runs_apart_whose_paths_are_redacted_to_the_same(tmp_path: Path) -> None:
    folders = [tmp_path / ("ghp_" + letter * 36) for letter in "ab"]
    for folder in folders:
        write_run(folder / "log.jsonl", collapsed=True)
    first, second = (folder / "log.jsonl" for folder in folders)
    assert gate(first, "--baseline", "b.json", "--write-baseline").exit_code == 0
    assert "ghp_a" not in (tmp_path / "b.json").read_text()
    assert gate(first, "--baseline", "b.json").exit_code == 0
    assert gate(second, "--baseline", "b.json").exit_code == 1
    result = gate(first, second, "--baseline", "b.json", "-f", "gitlab")
    assert result.exit_code == 1
    prints = [issue["fingerprint"] for issue in json.loads(result.stdout)]
    assert len(prints) == len(set(prints)) > 0


def test_baseline_of_the_first_version_is_read(tmp_path: Path, bad: Path) -> None:
    gate(bad, "--baseline", "b.json", "--write-baseline")
    known = json.loads((tmp_path / "b.json").read_text())
    old = [{"source": e["source"], "code": e["code"]} for e in known["findings"]]
    (tmp_path / "b.json").write_text(json.dumps({"schema": "grpo-doctor/baseline/1", "findings": old}))
    assert gate(bad, "--baseline", "b.json").exit_code == 0


def test_reports_and_the_step_summary(tmp_path: Path, bad: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    formats = ("sarif", "html", "junit", "json", "markdown", "gitlab")
    result = gate(bad, *(word for name in formats for word in ("--report", f"{name}=out/report.{name}")))
    assert result.exit_code == 1
    assert {path.name for path in (tmp_path / "out").iterdir()} == {f"report.{name}" for name in formats}
    assert "`GRD001` nan-or-inf" in (tmp_path / "summary.md").read_text(encoding="utf-8")


def test_another_format_on_standard_output_leaves_it_parsable(bad: Path) -> None:
    result = gate(bad, "--output-format", "json")
    assert json.loads(result.stdout)["runs"][0]["verdict"] == "failing"
    assert "1 run: 1 fail" in result.stderr


def test_killing_it_midway_leaves_no_half_written_report(tmp_path: Path, bad: Path) -> None:
    report = tmp_path / "report.html"
    report.write_text("whole")
    command = [sys.executable, "-m", "grpo_doctor", "gate", str(bad), "--report", f"html={report}"]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    for wait in (0.2, 0.5, 0.8):
        with subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            time.sleep(wait)
            process.send_signal(signal.SIGKILL)
        text = report.read_text(encoding="utf-8")
        assert text == "whole" or text.rstrip().endswith("</html>")


@needs_corpus
def test_the_p30_log_fails_with_its_cause_in_the_summary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    result = gate(CORPUS / "R133-colab-grpo")
    assert result.exit_code == 1
    assert "GEN001 generation-in-train-mode-with-checkpointing since step 5" in result.stdout
    assert "`GEN001`" in (tmp_path / "summary.md").read_text(encoding="utf-8")


@needs_corpus
def test_a_healthy_real_run_passes() -> None:
    assert gate(CORPUS / "R006-assignment5-alignment").exit_code == 0


def test_gate_reports_lost_rows_of_a_passing_run(tmp_path: Path, good: Path) -> None:
    lines = good.read_text().splitlines()
    good.write_text("\n".join([*lines[:5], lines[5][:40], *lines[6:]]) + "\n")
    (tmp_path / "config.json").write_text('{"group_size": ')
    (tmp_path / "samples.jsonl").write_text("{\n")
    result = gate(good)
    assert result.exit_code == 0
    told = " ".join(result.stderr.split())
    assert "good.jsonl: line 6 is not a record; skipped" in told
    assert "config.json: not JSON, so its settings were not read" in told
    assert "samples.jsonl:1: not a sample" in told


def test_the_hook_fails_on_a_log_that_was_not_read(tmp_path: Path, good: Path, bad: Path) -> None:
    hooks = yaml.safe_load((Path(__file__).parents[2] / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    hook = next(hook for hook in hooks if hook["id"] == "grpo-doctor-gate")
    program, command, *options = hook["entry"].split()
    assert (program, command) == ("grpo-doctor", "gate")
    assert re.search(hook["files"], "logs/smoke/metrics.jsonl")
    (runs := tmp_path / "runs").mkdir()
    (runs / "empty.jsonl").touch()
    assert gate(*options, good).exit_code == 0
    assert gate(*options, bad).exit_code == 1
    good.rename(runs / "good.jsonl")
    assert gate(*options, runs).exit_code == 2
