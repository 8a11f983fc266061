"""The GitHub action's steps as a shell script, without GitHub; and the workflow refers only to existing files."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from grpo_doctor.cli import app
from tests.cli.runs import write_run

GITHUB = Path(__file__).parents[1] / ".github"
ACTION: dict[str, Any] = yaml.safe_load((GITHUB.parent / "action.yml").read_text(encoding="utf-8"))
WORKFLOW: dict[str, Any] = yaml.safe_load((GITHUB / "workflows/smoke-run.yml").read_text(encoding="utf-8"))


def run_action(folder: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run every step's script in turn, with the inputs where GitHub would put them; return the last one that ran."""
    values = {name: str(about.get("default", "")) for name, about in ACTION["inputs"].items()} | inputs
    (folder / "bin").mkdir(exist_ok=True)
    (command := folder / "bin" / "grpo-doctor").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m grpo_doctor "$@"\n')
    command.chmod(0o755)
    base = os.environ | {
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(GITHUB.parent),
        "GITHUB_OUTPUT": str(folder / "output"),
        "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
    }
    for step in ACTION["runs"]["steps"]:
        words = {name: values[text.split("inputs.")[1].split(" ")[0]] for name, text in step["env"].items()}
        ended = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=folder, env=base | words, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if ended.returncode:
            break
    return ended


def test_a_healthy_run_passes_and_leaves_reports(tmp_path: Path) -> None:
    write_run(tmp_path / "my run.jsonl", collapsed=False)
    ended = run_action(tmp_path, paths="my run.jsonl\n", package="", require="GRD001")
    assert ended.returncode == 0, ended.stderr
    assert {p.name for p in (tmp_path / "grpo-doctor-report").iterdir()} == {
        "report.html",
        "report.sarif",
        "report.xml",
    }
    assert "sarif=grpo-doctor-report/report.sarif" in (tmp_path / "output").read_text()
    assert "1 healthy" in (tmp_path / "summary.md").read_text(encoding="utf-8")


def test_a_collapsed_run_fails_and_annotates(tmp_path: Path) -> None:
    write_run(tmp_path / "good.jsonl", collapsed=False)
    write_run(tmp_path / "bad.jsonl", collapsed=True)
    ended = run_action(tmp_path, paths="good.jsonl\nbad.jsonl", package="")
    assert ended.returncode == 1
    assert ended.stdout.startswith("::error file=bad.jsonl,line=30,title=")
    assert "2 runs: 1 fail, 1 pass" in ended.stderr


def test_configurations_of_every_kind_are_judged_before_the_logs(tmp_path: Path) -> None:
    write_run(tmp_path / "run.jsonl", collapsed=False)
    (tmp_path / "grpo.sh").write_text("trl grpo --num_generations 8 --learning_rate 1e-6\n")
    (tmp_path / "grpo.py").write_text("GRPOConfig(num_generations=8, beta=0.0)\n")
    (tmp_path / "rl.toml").write_text("[orchestrator]\nbatch_size = 64\ngroup_size = 8\n[trainer.optim]\nlr = 1e-6\n")
    enough = "GRPOConfig(num_generations=8, per_device_train_batch_size=64, gradient_accumulation_steps=4)"
    cells = [{"cell_type": "code", "source": [enough]}]
    (tmp_path / "grpo.ipynb").write_text(json.dumps({"cells": cells}))
    files = "grpo.sh\ngrpo.py\nrl.toml\ngrpo.ipynb\n"
    good = run_action(tmp_path, configurations=files, paths="run.jsonl", package="")
    assert (good.returncode, (tmp_path / "grpo-doctor-report/settings.sarif").exists()) == (0, True), good.stderr
    (tmp_path / "bad.sh").write_text("trl grpo --num_generations 1 --beta 0.1\n")
    bad = run_action(tmp_path, configurations=f"{files}bad.sh", package="")
    assert bad.returncode == 1
    assert "::error file=bad.sh,line=1,title=" in bad.stdout
    assert "file=grpo" not in bad.stdout.replace("::notice file=grpo", "")


@pytest.mark.parametrize("paths", ["x; touch pwned", "$(touch pwned)", "`touch pwned`", "--help"])
def test_inputs_are_not_passed_to_a_shell(tmp_path: Path, paths: str) -> None:
    assert run_action(tmp_path, paths=paths, package="").returncode == 2
    assert not (tmp_path / "pwned").exists()


def test_nothing_to_judge_is_not_a_pass(tmp_path: Path) -> None:
    assert run_action(tmp_path, package="").returncode == 2


def test_no_script_holds_a_substitution() -> None:
    assert not [step["name"] for step in ACTION["runs"]["steps"] if "${{" in step["run"]]


def test_a_log_that_was_not_read_fails_unless_strict_is_false(tmp_path: Path) -> None:
    (runs := tmp_path / "runs").mkdir()
    write_run(runs / "good.jsonl", collapsed=False)
    (runs / "empty.jsonl").touch()
    ended = run_action(tmp_path, paths="runs", package="")
    assert ended.returncode == 2
    assert "runs/empty.jsonl: not read: the file is empty" in ended.stderr
    assert run_action(tmp_path, paths="runs", package="", strict="false").returncode == 0


def test_other_actions_are_pinned_by_commit() -> None:
    used = [line for file in (GITHUB / "workflows").glob("*.yml") for line in file.read_text().splitlines()]
    used = [line.split("uses:")[1].strip() for line in used if "uses:" in line]
    assert [
        name
        for name in used
        if not name.startswith("./ ") and name != "./" and not re.search(r"@[0-9a-f]{40}  # v\d", name)
    ] == []


def test_the_workflow_uses_inputs_and_commands_that_exist() -> None:
    steps = WORKFLOW["jobs"]["smoke"]["steps"]
    (used,) = [step for step in steps if step.get("uses") == "./"]
    assert used["with"].keys() <= ACTION["inputs"].keys()
    (command,) = [step["run"] for step in steps if step.get("run", "").startswith("grpo-doctor ")]
    text = CliRunner().invoke(app, [command.split()[1], "--help"], env={"COLUMNS": "300", "TERM": "dumb"}).stdout
    assert all(word in text for word in command.split() if word.startswith("--"))
