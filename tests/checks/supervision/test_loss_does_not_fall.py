from __future__ import annotations

import math
from typing import Any

import pytest

from grpo_doctor import diagnose
from grpo_doctor.diagnosis.verdict import Diagnosis
from grpo_doctor.record import StepRecord
from grpo_doctor.run import Run, run_of
from grpo_doctor.testing import find, make_run, run_check

FALLING = [round(0.8 + 1.5 * math.exp(-i / 8) + 0.01 * (i % 2), 3) for i in range(40)]
FLAT = [2.5, 2.52, 2.49, 2.51]


def supervised(run: Run) -> Diagnosis:
    run.run_type = "supervised"
    return diagnose(run)


def severity(thresholds: dict[str, float] | None = None, **columns: Any) -> str | None:
    found = run_check("SUP001", thresholds=thresholds, **columns)
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


def test_a_flat_loss_is_not_evidence_of_learning() -> None:
    diagnosis = supervised(make_run(loss=FLAT * 11))
    assert diagnosis.verdict == "unproven"


@pytest.mark.parametrize(
    ("columns", "wanted"),
    [
        ({"loss": "0x10"}, "error"),
        ({"loss": "0x10", "grad_norm": "0x10"}, "error"),
        ({"loss": "0.69 0.3 0.1 0x10"}, None),
        ({"loss": "0.69 0.3 0.1 0x10", "grad_norm": "1x3 0x10"}, "error"),
    ],
)
def test_a_loss_of_0_trains_nothing(columns: dict[str, Any], wanted: str | None) -> None:
    assert severity(**columns) == wanted


def test_a_second_run_in_the_log_is_not_a_rise() -> None:
    rows = [StepRecord(step=i % 40, loss=x) for i, x in enumerate([*FALLING, *(9.0 for _ in range(10))])]
    assert supervised(run_of(rows, "test")).finding("SUP001") is None


def test_losses_of_rl_are_not_judged() -> None:
    assert diagnose(make_run(loss=[*FALLING, *([8.0] * 10)])).finding("SUP001") is None


def test_a_loss_that_never_moves_has_not_fallen_by_the_fortieth_row() -> None:
    found = find("SUP001", loss="2.5x45")
    assert (found.onset_step, found.detected_step) == (1, 42)  # three of five rows, from the fortieth on


@pytest.mark.parametrize(
    ("thresholds", "loss", "wanted"),
    [
        ({"above_first_share": 0.25, "nats": 0.25}, "2x5 0.5x10 2.75x10", None),
        ({"above_first_share": 0.25, "nats": 0.24}, "2x5 0.5x10 2.75x10", "error"),
        ({}, "2x5 1.5x10 3x10", "warning"),  # twice the lowest
        ({}, "2x5 1.5x10 3.01x10", "error"),
        ({}, "2x5 0x10 9x10", None),  # a loss of 0 does not count
    ],
)
def test_values_at_their_threshold_are_not_an_error(
    thresholds: dict[str, float], loss: str, wanted: str | None
) -> None:
    assert severity(thresholds, loss=loss) == wanted


@pytest.mark.parametrize(
    ("thresholds", "loss", "wanted"),
    [
        ({"above_lowest_share": 0.25}, "2.5x5 2x25 3x25", None),  # had fallen by a quarter of the lowest, and not more
        ({"above_lowest_share": 0.24}, "2.5x5 2x25 3x25", "warning"),
        ({}, "3x5 1x25 2x25", None),  # half of the fall is given back
        ({}, "3x5 1x25 2.01x25", "warning"),
        ({"above_lowest_share": 0.25, "half": 0.25}, "3x5 2x25 2.5x25", None),  # a quarter above the lowest
        ({"above_lowest_share": 0.24, "half": 0.25}, "3x5 2x25 2.5x25", "warning"),
        ({}, "3x5 0x25 2x25", None),
    ],
)
def test_thresholds_of_a_loss_that_falls_again(thresholds: dict[str, float], loss: str, wanted: str | None) -> None:
    assert severity(thresholds, loss=loss) == wanted


def test_the_message_names_the_step_at_which_the_loss_began_to_rise() -> None:
    """Since step 31, which the median of five rows shows on step 33."""
    assert find("SUP001", loss="3x5 1x25 2.01x25").evidence["since"] == 31


def test_a_preference_loss_that_rises_above_where_it_began_is_a_warning() -> None:
    rising = [0.67 + 0.01 * (-1) ** i for i in range(10)] + [0.66 + 0.011 * i + 0.01 * (-1) ** i for i in range(40)]
    run = make_run(loss=rising)
    run.run_type = "preference"
    diagnosis = diagnose(run)
    assert (diagnosis.verdict, diagnosis.outcome) == ("suspect", "SUP001")
    assert diagnosis.headline == "The loss rose from 0.66 to 1.07 (first value 0.68)."
