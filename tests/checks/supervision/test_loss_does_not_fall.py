from __future__ import annotations

import math
from typing import Any

import pytest

from grpo_doctor import diagnose
from grpo_doctor.diagnosis import Diagnosis
from grpo_doctor.record import StepRecord
from grpo_doctor.run import Run, run_of
from grpo_doctor.testing import make_run

FALLING = [round(0.8 + 1.5 * math.exp(-i / 8) + 0.01 * (i % 2), 3) for i in range(40)]
FLAT = [2.5, 2.52, 2.49, 2.51]


def supervised(run: Run) -> Diagnosis:
    run.run_type = "supervised"
    return diagnose(run)


def severity(**columns: Any) -> str | None:
    found = supervised(make_run(**columns)).finding("SUP001")
    return found.severity if found else None


def test_a_loss_that_leaves_its_range_is_an_error() -> None:
    diagnosis = supervised(make_run(loss=[*FALLING, *(8 + 0.1 * (i % 2) for i in range(10))]))
    found = diagnosis.finding("SUP001")
    assert found is not None
    assert (found.severity, diagnosis.verdict, diagnosis.headline) == ("error", "failing", found.message)
    assert found.message.startswith("The loss rose from 0.8")
    assert 40 <= found.onset_step <= 45


@pytest.mark.parametrize(
    ("losses", "wanted"),
    [
        ([*FALLING, 9, *FALLING[-10:]], None),
        ([*FALLING, *([1.7, 1.71] * 15)], "warning"),
        ([*FALLING, *([0.9, 0.91] * 15)], None),
        (FLAT * 11, "info"),
        (FLAT * 4, None),
    ],
    ids=["a spike", "half given back", "a little given back", "flat", "too short"],
)
def test_degrees(losses: list[float], wanted: str | None) -> None:
    assert severity(loss=losses) == wanted


def test_a_flat_loss_leaves_open_that_it_learns() -> None:
    diagnosis = supervised(make_run(loss=FLAT * 11))
    assert diagnosis.verdict == "healthy"
    assert diagnosis.headline.endswith("not proven: that it learns: its loss has not fallen.")


@pytest.mark.parametrize(
    ("columns", "wanted"),
    [
        ({"loss": "0x10"}, "error"),
        ({"loss": "0x10", "grad_norm": "0x10"}, "error"),
        ({"loss": "0.69 0.3 0.1 0x10"}, None),
        ({"loss": "0.69 0.3 0.1 0x10", "grad_norm": "1x3 0x10"}, "error"),
    ],
)
def test_a_loss_of_nought_trains_nothing(columns: dict[str, str], wanted: str | None) -> None:
    assert severity(**columns) == wanted


def test_a_second_run_in_the_log_is_no_rise() -> None:
    rows = [StepRecord(step=i % 40, loss=x) for i, x in enumerate([*FALLING, *(9.0 for _ in range(10))])]
    assert supervised(run_of(rows, "test")).finding("SUP001") is None


def test_losses_of_rl_are_not_judged() -> None:
    assert diagnose(make_run(loss=[*FALLING, *([8.0] * 10)])).finding("SUP001") is None
