"""Rollouts passed to a live doctor give the same result as a dump of them."""

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from grpo_doctor.diagnosis.examine import diagnose
from grpo_doctor.diagnosis.live import LiveDoctor
from grpo_doctor.readers import read
from grpo_doctor.record import StepRecord, decode, encode
from grpo_doctor.rollouts import Steps
from tests.rollouts.planted import LAYOUTS, made, write


def rows_of(task: str, drift: str | None) -> dict[int, list[dict[str, Any]]]:
    found: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for step, one in made(task, drift):
        found[step].append(LAYOUTS[task](step, one))
    return found


@pytest.mark.parametrize(
    ("task", "drift"), [("math", "loop"), ("search", "environment"), ("search", "tools die"), ("code", None)]
)
def test_live_finds_in_rollouts_what_the_dump_shows(tmp_path: Path, task: str, drift: str | None) -> None:
    live = LiveDoctor()
    for step, rows in rows_of(task, drift).items():
        live.push(StepRecord(step=step), rollouts=rows)
    (run,) = read(write(tmp_path, task, drift))
    told = [(f.code, f.severity, f.onset_step, f.message) for f in diagnose(run).findings]
    assert [(f.code, f.severity, f.onset_step, f.message) for f in live.findings()] == told


def test_fields_that_the_trainer_records_are_kept() -> None:
    record, shown = Steps().filled(StepRecord(step=7, reward_mean=9.0), rows_of("math", None)[1])
    assert record.reward_mean == 9.0
    assert record.reward_max == 1.0
    assert {sample.step for sample in shown} == {7}
    assert decode(encode(record)) == record


def test_no_rollouts_change_nothing() -> None:
    assert Steps().filled(StepRecord(step=7), []) == (StepRecord(step=7), [])


def test_a_log_and_the_rollouts_next_to_it_are_one_run(tmp_path: Path) -> None:
    write(tmp_path / "rollouts", "math", "loop")
    lines = "".join(
        f'{{"step": {n}, "loss": {0.1 / n}, "reward": {0.3 + n / 100}, "kl": 0.01}}\n' for n in range(1, 31)
    )
    (tmp_path / "train.jsonl").write_text(lines, encoding="utf-8")
    (run,) = read(tmp_path)
    assert {"loss", "repetition_rate"} <= run.columns.keys()
    assert "group_rewards" not in run.columns  # the logged mean is another one: these are a part of the batch
    assert run.columns["reward_mean"][0] == pytest.approx(0.31)
    assert diagnose(run).finding("DIV005") is not None


def test_rollouts_of_an_evaluation_are_not_training(tmp_path: Path) -> None:
    (run,) = read(write(tmp_path / "val_rollouts", "math", None))
    assert run.run_type == "evaluation"
