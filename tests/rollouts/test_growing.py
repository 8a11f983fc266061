"""A rollout file that grows while it is watched is read once, with the same result as the complete file."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grpo_doctor.readers import Kept, read, survey
from grpo_doctor.readers.formats import completions
from grpo_doctor.rollouts import rollouts_of
from grpo_doctor.run import Run
from tests.rollouts.planted import LAYOUTS, made


@pytest.fixture
def lines() -> list[str]:
    return [json.dumps(LAYOUTS["search"](step, one)) + "\n" for step, one in made("search", "loop")][:400]


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> list[Mapping[str, Any]]:
    """The rows that were parsed."""
    taken: list[Mapping[str, Any]] = []

    def noted(row: Mapping[str, Any], step: int | None = None) -> Any:
        taken.append(row)
        return rollouts_of(row, step)

    monkeypatch.setattr(completions, "rollouts_of", noted)
    return taken


def same(run: Run, other: Run) -> None:
    assert run.steps.tolist() == other.steps.tolist()
    assert run.columns.keys() == other.columns.keys()
    for name, column in run.columns.items():
        np.testing.assert_array_equal(column, other.columns[name], name)
    assert (run.samples, run.notes) == (other.samples, other.notes)


def test_each_row_is_read_once_and_nothing_is_lost(
    tmp_path: Path, lines: list[str], rows: list[Mapping[str, Any]]
) -> None:
    path, kept = tmp_path / "rollouts.jsonl", Kept()
    for begin, end in ((0, 90), (90, 91), (91, 250), (250, 400)):
        path.write_text("".join(lines[:end]), encoding="utf-8")
        rows.clear()
        (run,) = survey(path, None, kept).runs
        assert len(rows) <= end - begin + 2  # the first row is inspected twice to recognise the format
        same(run, read(path)[0])


@pytest.mark.parametrize("shown", [1, 40, 41])
def test_an_incomplete_last_row_is_neither_lost_nor_counted_twice(tmp_path: Path, lines: list[str], shown: int) -> None:
    path, kept = tmp_path / "rollouts.jsonl", Kept()
    for text in ("".join(lines[:100]) + lines[100][:shown], "".join(lines[:200]), "".join(lines)):
        path.write_text(text, encoding="utf-8")
        (run,) = survey(path, None, kept).runs
    same(run, read(path)[0])


def test_a_file_that_is_written_again_is_read_again(tmp_path: Path, lines: list[str]) -> None:
    path, kept = tmp_path / "rollouts.jsonl", Kept()
    for text in (lines[:100], lines[200:400]):
        path.write_text("".join(text), encoding="utf-8")
        (run,) = survey(path, None, kept).runs
    same(run, read(path)[0])
