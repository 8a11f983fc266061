"""Every command that walks a folder reports the same unread files and returns the same exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from grpo_doctor.agents import answers
from grpo_doctor.cli import app
from tests.cli.runs import write_run
from tests.unprivileged import permissions_hold

COMMANDS = {
    "gate": ["gate", "runs"],
    "analyze": ["analyze", "runs"],
    "fleet": ["fleet", "runs"],
    "compare": ["compare", "good.jsonl", "runs"],
}


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "good.jsonl", collapsed=False)
    (tmp_path / "runs/a").mkdir(parents=True)
    write_run(tmp_path / "runs/a/metrics.jsonl", collapsed=False, steps=70)


def put(name: str, content: bytes) -> None:
    path = Path("runs") / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)


@pytest.mark.parametrize("words", [pytest.param(words, id=name) for name, words in COMMANDS.items()])
def test_files_that_may_be_logs_and_were_not_read_are_named(words: list[str]) -> None:
    put("b/metrics.jsonl", b"")
    put("c/results.csv", b"\0\1\2\3" * 400)
    Path("runs/d.jsonl").symlink_to("gone.jsonl")
    result = CliRunner().invoke(app, words)
    told = " ".join(result.stderr.split())
    assert "runs/b/metrics.jsonl: not read: the file is empty" in told
    assert "runs/c/results.csv: not read: binary data" in told
    assert "runs/d.jsonl: not read: a broken link" in told
    assert result.exit_code == 0


@pytest.mark.parametrize("words", [pytest.param(words, id=name) for name, words in COMMANDS.items()])
def test_a_folder_and_a_file_without_permission_are_exit_2(words: list[str]) -> None:
    put("b/metrics.jsonl", b"{}")
    put("c.csv", b"step,reward\n1,0\n")
    for path in (Path("runs/b"), Path("runs/c.csv")):
        path.chmod(0)
    try:
        with permissions_hold():
            result = CliRunner().invoke(app, words)
    finally:
        Path("runs/b").chmod(0o700)
    assert "runs/b: unreadable: a folder: Permission denied" in result.stderr
    assert "runs/c.csv: unreadable: Permission denied" in result.stderr
    assert result.exit_code == 2


@pytest.mark.parametrize(
    "words",
    [["gate", "runs", "empty"], ["analyze", "runs", "empty"], ["fleet", "runs", "empty"], ["compare", "runs", "empty"]],
    ids=COMMANDS,
)
def test_an_input_of_which_no_run_came_is_exit_3(words: list[str]) -> None:
    Path("empty").mkdir()
    result = CliRunner().invoke(app, words)
    assert "empty: no training log found" in result.stderr
    assert result.exit_code == 3


def test_a_fleet_keeps_the_fate_of_every_file_in_its_table() -> None:
    put("b/metrics.jsonl", b"")
    asked = CliRunner().invoke(
        app, ["fleet", "runs", "--sql", "select source, fate from files order by 1", "-f", "json"]
    )
    assert [[row["source"], row["fate"]] for row in json.loads(asked.stdout)] == [
        ["runs/a/metrics.jsonl", "read"],
        ["runs/b/metrics.jsonl", "not read"],
    ]


def test_agents_are_given_what_was_not_read() -> None:
    put("b/metrics.jsonl", b"")
    assert answers.analyze("runs")["not_read"] == ["runs/b/metrics.jsonl: the file is empty"]
