"""Keys that JSON writes with escapes, in logs that are long enough for the fast reader."""

import json
import math
from pathlib import Path

import pytest
from typer.testing import CliRunner

from grpo_doctor.cli import app
from grpo_doctor.readers.input import Input
from grpo_doctor.readers.reader import read_input
from tests.test_pytest_plugin import run_pytest

KEYS = ['a"b', "c\\d", "e\x01f", "g\th", "i\nj", '":', "\u2028", "\x7f", "\ud800", "", "{", "plain"]
ROWS = 650


def write(path: Path, key: str) -> Path:
    rows = [{"step": i, "reward": i / ROWS, "loss": 0.1, f"rewards/a{key}b/mean": float(i)} for i in range(ROWS)]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


@pytest.mark.parametrize("key", KEYS, ids=repr)
def test_key_that_needs_an_escape_is_read_in_every_row(tmp_path: Path, key: str) -> None:
    (run,) = read_input(Input(write(tmp_path / "log.jsonl", key)))
    assert len(run) == ROWS
    components = run.columns["reward_components"]
    assert [math.fsum(row.values()) for row in components] == list(range(ROWS))


@pytest.mark.parametrize("words", [["gate"], ["analyze"], ["watch", "--idle", "0.3", "--interval", "0.1"]])
def test_commands_judge_a_log_with_quotes_in_its_keys(tmp_path: Path, words: list[str]) -> None:
    result = CliRunner().invoke(app, [*words, str(write(tmp_path / "log.jsonl", 'a"b'))])
    assert result.exit_code in (0, 1), result.output
    assert "bug" not in result.output


def test_pytest_plugin_judges_a_log_with_quotes_in_its_keys(tmp_path: Path) -> None:
    write(tmp_path / "log.jsonl", 'a"b')
    (tmp_path / "test_it.py").write_text("def test_run(diagnose):\n    assert diagnose('log.jsonl').steps == 650\n")
    ended = run_pytest(tmp_path, "test_it.py")
    assert ended.returncode == 0, ended.stdout
