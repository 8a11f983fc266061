"""Every drift planted into rollouts is reported on every task, and no check reports one in the runs without a drift."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from grpo_doctor.diagnosis.examine import diagnose
from grpo_doctor.diagnosis.verdict import Diagnosis
from grpo_doctor.readers import read
from tests.rollouts.planted import DRIFTS, LAYOUTS, ONSET, SHOWN_BY, UNCHECKED, write

OF_TEXTS = {code for code, _, _ in DRIFTS.values()}


def diagnosis(folder: Path, task: str, drift: str | None, seed: int = 0) -> Diagnosis:
    (run,) = read(write(folder, task, drift, seed))
    return diagnose(run)


@pytest.mark.parametrize(("drift", "task"), [(drift, task) for drift in DRIFTS for task in DRIFTS[drift][2]])
def test_a_planted_drift_is_reported_after_its_onset(tmp_path: Path, drift: str, task: str) -> None:
    code = DRIFTS[drift][0]
    found = diagnosis(tmp_path, task, drift).finding(code)
    assert found is not None
    assert found.onset_step >= ONSET


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("task", LAYOUTS)
def test_a_run_without_a_drift_is_healthy_and_silent(tmp_path: Path, task: str, seed: int) -> None:
    found = diagnosis(tmp_path, task, None, seed)
    assert found.verdict == "healthy"
    assert OF_TEXTS.isdisjoint(finding.code for finding in found.findings)


TASKS = {
    **{drift: tasks for drift, (_, _, tasks) in DRIFTS.items()},
    **{d: tasks for d, (_, tasks) in UNCHECKED.items()},
}


@cache
def columns(task: str, drift: str | None) -> dict[str, np.ndarray]:
    with TemporaryDirectory() as folder:
        (run,) = read(write(Path(folder), task, drift))
        return run.columns


@pytest.mark.parametrize(("drift", "task"), [(drift, task) for drift in SHOWN_BY for task in TASKS[drift]])
def test_a_statistic_moves_with_its_drift_and_not_without_it(drift: str, task: str) -> None:
    moved = {}
    for planted in (drift, None):
        column = columns(task, planted).get(SHOWN_BY[drift], np.zeros(30))
        moved[planted] = float(np.nan_to_num(column[-10:]).mean() - np.nan_to_num(column[: ONSET - 1]).mean())
    assert abs(moved[drift]) > 0.15
    assert abs(moved[None]) < 0.25 * abs(moved[drift])


def test_every_drift_has_a_statistic() -> None:
    assert SHOWN_BY.keys() == TASKS.keys()
