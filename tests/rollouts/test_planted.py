"""Every drift planted into rollouts is reported on every task, and no check reports one in the runs without a drift."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from grpo_doctor.diagnosis.examine import diagnose
from grpo_doctor.readers import read
from grpo_doctor.run import Run
from tests.rollouts.planted import DRIFTS, LAYOUTS, ONSET, SHOWN_BY, UNCHECKED, write

OF_TEXTS = {code for code, _, _ in DRIFTS.values()}


TASKS = {
    **{drift: tasks for drift, (_, _, tasks) in DRIFTS.items()},
    **{d: tasks for d, (_, tasks) in UNCHECKED.items()},
}


@cache
def run_of(task: str, drift: str | None, seed: int = 0) -> Run:
    with TemporaryDirectory() as folder:
        (run,) = read(write(Path(folder), task, drift, seed))
        return run


def moved(run: Run, statistic: str) -> float:
    """Return the mean of a statistic in the last ten steps minus that before the onset."""
    column = np.nan_to_num(run.columns.get(statistic, np.zeros(30)))
    return float(column[-10:].mean() - column[: ONSET - 1].mean())


@pytest.mark.parametrize(("drift", "task"), [(drift, task) for drift in SHOWN_BY for task in TASKS[drift]])
def test_a_planted_drift_moves_its_statistic_and_is_reported_after_its_onset(drift: str, task: str) -> None:
    run, known = run_of(task, drift), run_of(task, None)
    assert abs(moved(run, SHOWN_BY[drift])) > 0.15
    assert abs(moved(known, SHOWN_BY[drift])) < 0.25 * abs(moved(run, SHOWN_BY[drift]))
    if drift in DRIFTS:
        found = diagnose(run).finding(DRIFTS[drift][0])
        assert found is not None
        assert found.onset_step >= ONSET


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("task", LAYOUTS)
def test_a_run_without_a_drift_is_healthy_and_silent(task: str, seed: int) -> None:
    found = diagnose(run_of(task, None, seed))
    assert found.verdict == "healthy"
    assert OF_TEXTS.isdisjoint(finding.code for finding in found.findings)


def test_every_drift_has_a_statistic() -> None:
    assert SHOWN_BY.keys() == TASKS.keys()
