"""Whatever a file does, it costs itself alone: time, memory, and errors of grpo-doctor itself."""

from __future__ import annotations

import gzip
import sqlite3
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from grpo_doctor.cli import app
from grpo_doctor.limits import Budget, OverBudgetError, allow, spending, spent
from grpo_doctor.readers.formats import jsonl
from grpo_doctor.readers.input import Input
from tests.cli.runs import write_run


@pytest.fixture(autouse=True)
def _as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    allow(Budget())


def command(*words: object) -> Result:
    result = CliRunner().invoke(app, [*map(str, words)])
    assert "Traceback" not in result.output
    allow(Budget())
    return result


def test_work_outside_of_an_input_has_no_budget() -> None:
    allow(Budget(0.0, 0.0))
    spent(1 << 40)


def test_an_input_within_another_counts_towards_that() -> None:
    allow(Budget(0.0, 1.0))
    with spending():
        allow(Budget())
        with spending(), pytest.raises(OverBudgetError, match="given up after 0 seconds; --budget-seconds allows more"):
            spent()


def test_time_is_an_option_an_environment_variable_and_a_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = write_run(tmp_path / "run.jsonl", collapsed=False)
    words = f"grpo-doctor: {log}: given up after 0 seconds"
    assert command("analyze", log).exit_code == 0
    by_option = command("analyze", log, "--budget-seconds", "0")
    (tmp_path / "grpo-doctor.toml").write_text("budget-seconds = 0.0")
    by_setting = command("gate", log)
    assert command("gate", log, "--budget-seconds", "60").exit_code == 0
    (tmp_path / "grpo-doctor.toml").unlink()
    monkeypatch.setenv("GRPO_DOCTOR_BUDGET_SECONDS", "0")
    for result in (by_option, by_setting, command("gate", log)):
        assert (result.exit_code, words in result.stderr) == (2, True)


def test_what_a_file_takes_too_much_of_costs_no_other_its_judgement(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    folder.mkdir()
    write_run(folder / "good.jsonl", collapsed=False)
    row = b'{"step": 1, "reward": 0.5, "loss": 0.1, "note": "' + b"x" * 2000 + b'"},\n'
    with gzip.open(folder / "large.log.gz", "wb") as file:
        file.write(b'{"log_history": [\n' + row * 2000 + row[:-2] + b"]}")
    result = command("gate", folder, "--budget-megabytes", "16")
    assert (result.exit_code, result.stdout.split()[0]) == (2, "pass")
    assert "large.log.gz: unreadable: a document of 3 MB, which must be read as a whole, needs more" in result.stderr
    assert "--budget-megabytes allows more" in result.stderr
    assert command("gate", folder).stdout.count("good.jsonl") == 1


def test_a_query_that_never_ends_is_interrupted(tmp_path: Path) -> None:
    store = tmp_path / "trackio.db"
    with sqlite3.connect(store) as db:
        db.execute("create table configs(run_id, run_name, config)")
        db.execute(
            "create view metrics as with recursive n(id) as (select 1 union all select id + 1 from n) "
            "select id, 'a' run_id, 'a' run_name, id step, '{}' metrics from n order by -id"
        )
    result = command("analyze", store, "--budget-seconds", "0.3")
    assert (result.exit_code, "given up after 0.3 seconds" in result.stderr) == (2, True)


def test_an_error_of_the_reader_is_told_as_such_and_costs_one_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_on_bad(file: Input) -> None:
        raise KeyError("unforeseen")

    write_run(tmp_path / "good.jsonl", collapsed=False)
    (tmp_path / "bad.jsonl").write_text('{"step": 1, "reward": 0.5}\n{"step": 2, "reward": 0.5}\n')
    monkeypatch.setattr(jsonl, "read", break_on_bad)
    words = "bad.jsonl: this is a bug in grpo-doctor, not in your run: KeyError: 'unforeseen' (test_budget.py:"
    for what in ([tmp_path], [tmp_path / "bad.jsonl", tmp_path / "good.jsonl"]):
        result = command("gate", *what)
        assert (result.exit_code, words in result.stderr) == (4, True), result.stderr
        assert result.stdout.split()[0] == "pass"
    assert command("analyze", tmp_path / "bad.jsonl").exit_code == 4
