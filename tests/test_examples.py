"""The commands of the quick start and the files of docs/examples, run unchanged."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from grpo_doctor import diagnose
from grpo_doctor.cli import app

from .cli.runs import write_run

ROOT = Path(__file__).parents[1]
COMMANDS = re.findall(r"^\$ grpo-doctor (.*)$", (ROOT / "docs/quick-start.md").read_text("utf-8"), re.MULTILINE)
EXAMPLES = {
    "analyze.py": (["bad.jsonl"], "failing - "),
    "live.py": ([], "step 41: GRD001"),
    "compare.py": (["bad.jsonl", "good.jsonl"], "better - "),
}
"""File: its arguments, and what it prints."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("examples")
    write_run(folder / "bad.jsonl", collapsed=True)
    write_run(folder / "good.jsonl", collapsed=False)
    (folder / "train.log").write_text(
        "".join(f"{{'loss': 0.1, 'grad_norm': 0.5, 'reward': {0.3 + 0.01 * n}, 'epoch': {n}}}\n" for n in range(40))
    )
    (folder / "config.yaml").write_text("num_generations: 8\nlearning_rate: 1.0e-6\nbeta: 0.0\nloss_type: dapo\n")
    return folder


def test_the_quick_start_has_commands() -> None:
    assert len(COMMANDS) >= 6


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_quick_start_works(place: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.chdir(place)
    result = CliRunner().invoke(app, shlex.split(command))
    assert result.exit_code == 0, result.output
    assert result.stdout


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs(place: Path, name: str) -> None:
    arguments, says = EXAMPLES[name]
    command = [sys.executable, str(ROOT / "docs/examples" / name), *arguments]
    found = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert says in found.stdout


def test_the_adapter_of_the_examples_is_right(place: Path) -> None:
    result = CliRunner().invoke(app, ["probe", "--select", "ADV", str(ROOT / "docs/examples/adapter.py")])
    assert result.exit_code == 0, result.output
    assert "HEALTHY" in result.output


def test_every_example_is_run() -> None:
    assert {path.name for path in (ROOT / "docs/examples").glob("*.py")} == {*EXAMPLES, "adapter.py", "padding_bug.py"}


def test_a_path_is_diagnosed_where_it_holds_one_run(place: Path, tmp_path: Path) -> None:
    assert diagnose(place / "bad.jsonl").verdict == "failing"
    for name in ("one.jsonl", "two.jsonl"):
        write_run(tmp_path / name, collapsed=name == "one.jsonl")
    with pytest.raises(ValueError, match="holds 2 runs; diagnose each of"):
        diagnose(str(tmp_path))


def test_the_padding_bug_of_the_readme_is_found() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    done = CliRunner().invoke(app, ["probe", str(ROOT / "docs/examples/padding_bug.py")])
    assert done.exit_code == 1
    assert "PAD001 left-pad-count-as-position (critical)" in done.output
    assert "15 of 27 extracted responses" in done.output
    assert "15 of 27 extracted responses" in readme
