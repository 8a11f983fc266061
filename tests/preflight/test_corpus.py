"""Public configurations of other authors: each is read, group size and learning rate are correct, and none without a
fault gets an error."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

from grpo_doctor.diagnosis.verdict import Diagnosis
from grpo_doctor.preflight.configuration import Configuration
from grpo_doctor.preflight.judgement import judge
from grpo_doctor.preflight.reading import read
from tests.corpus_path import SHARED, needs

CONFIGS = SHARED / "configs"
needs_configs = needs(CONFIGS)
OF_ENVIRONMENTS = ("agentic_val_sokoban_gigpo", "agent_val_frozen_lake_async")
"""ROLL's agents: the group is that of the environments (8), not the 1 response of a state, as the index has it."""


@cache
def labelled() -> list[tuple[Path, str, str]]:
    with (CONFIGS / "index.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["file"]]
    return [(CONFIGS / row["file"], row["K"], row["learning_rate"]) for row in rows]


@cache
def first(path: Path) -> Configuration:
    return read(path)[0]


@cache
def judged(path: Path) -> Diagnosis:
    return judge(first(path), str(path))


def share_right(name: str) -> float:
    labels = {"group_size": 1, "learning_rate": 2}
    said = [(row[0], str(row[labels[name]])) for row in labelled() if row[labels[name]]]
    said = [(path, value) for path, value in said if not any(word in path.name for word in OF_ENVIRONMENTS)]
    right = [bool(first(path).settings.get(name) == float(value)) for path, value in said]
    return sum(right) / len(right)


@needs_configs
def test_the_group_and_the_rate_are_right_if_the_file_states_them() -> None:
    assert share_right("group_size") >= 0.95
    assert share_right("learning_rate") >= 0.95


@needs_configs
def test_no_error_and_almost_no_warning() -> None:
    files = [path for path, _, _ in labelled()]
    found = [(path.name, f.code, f.severity) for path in files for f in judged(path).findings]
    assert [entry for entry in found if entry[2] == "error"] == []
    warned = {name for name, _, severity in found if severity == "warning"}
    assert len(warned) < 0.05 * len(files), warned


@needs_configs
def test_every_labelled_file_gets_a_headline() -> None:
    for path, k, rate in labelled():
        diagnosis = judged(path)
        assert diagnosis.headline
        if k and rate:
            assert diagnosis.verdict != "unjudged", path
            assert diagnosis.tables, path
