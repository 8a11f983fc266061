"""The pytest plugin in a separate pytest."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.runs import write_run

TEST = """
def test_run(diagnose):
    from grpo_doctor import StepRecord
    assert diagnose("good.jsonl").verdict == "healthy"
    assert diagnose([StepRecord(step=1)]).verdict == "unjudged"
"""


def run_pytest(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(Path(__file__).parents[1])}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "grpo_doctor.integrations.pytest_plugin",
        "-c",
        "/dev/null",
        *words,
    ]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_run(tmp_path / "good.jsonl", collapsed=False)
    write_run(tmp_path / "bad.jsonl", collapsed=True)
    (tmp_path / "empty.log").write_text("")
    return tmp_path


def test_the_fixture_takes_a_path_or_records(folder: Path) -> None:
    (folder / "test_it.py").write_text(TEST)
    assert run_pytest(folder, "test_it.py").returncode == 0


def test_the_option_is_a_test_that_fails_with_the_report(folder: Path) -> None:
    (folder / "test_it.py").write_text("def test_nothing(): pass\n")
    ended = run_pytest(
        folder, "test_it.py", *(f"--grpo-doctor-run={n}" for n in ("good.jsonl", "bad.jsonl", "empty.log"))
    )
    assert ended.returncode == 1
    assert "2 failed, 2 passed" in ended.stdout
    assert "GRD001" in ended.stdout
    assert "UNJUDGED" in ended.stdout
    assert "Traceback" not in ended.stdout


def test_a_path_that_is_not_there_is_one_line(folder: Path) -> None:
    ended = run_pytest(folder, "--grpo-doctor-run=absent.log", "-p", "no:cacheprovider")
    assert ended.returncode == 1
    assert "absent.log: No such file or directory" in ended.stdout
    assert "Traceback" not in ended.stdout
