"""Any log as records: what is written is read back the same, NaN included, and a folder counts a run once."""

import csv
from pathlib import Path

import pytest
from typer.testing import CliRunner

from grpo_doctor.cli import app
from grpo_doctor.readers import read
from tests.readers.make import known

LOG = "".join(f"step {i} loss {'nan' if i == 2 else i} reward 0.{i}\n" for i in (1, 2, 3, 4))


def convert(*words: object) -> str:
    result = CliRunner().invoke(app, ["convert", *map(str, words)])
    assert result.exit_code == 0, result.output
    return result.output


def test_records_keep_what_was_read(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(LOG, encoding="utf-8")
    convert(tmp_path / "train.log", tmp_path / "out" / "r.jsonl")
    (before,), (after,) = read(tmp_path / "train.log"), read(tmp_path / "out" / "r.jsonl")
    assert known(after) == known(before)
    assert known(before)["loss"] == [1, "NaN", 3, 4]


def test_csv_and_a_folder_that_counts_the_run_once(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(LOG, encoding="utf-8")
    convert(tmp_path / "train.log", tmp_path / "steps.csv")
    with open(tmp_path / "steps.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["reward_mean"] for row in rows] == ["0.1", "0.2", "0.3", "0.4"]
    (run,) = read(tmp_path)
    assert [note for note in run.notes if "another log" in note]


def test_parquet(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    (tmp_path / "train.log").write_text(LOG, encoding="utf-8")
    convert(tmp_path / "train.log", tmp_path / "r.parquet")
    assert parquet.read_table(tmp_path / "r.parquet").column("step").to_pylist() == [1, 2, 3, 4]


def test_a_target_without_a_format_is_reported(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(LOG, encoding="utf-8")
    result = CliRunner().invoke(app, ["convert", str(tmp_path / "train.log"), str(tmp_path / "x.doc")])
    assert result.exit_code == 2
    assert "or name the format with --to" in result.output
