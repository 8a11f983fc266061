from typing import Any

import pytest

from grpo_doctor.testing import find, run_check

TRAIN = "2 1.5 1 0.8 0.6 0.4 0.2 0.1"


def test_held_out_loss_that_rises_while_training_falls() -> None:
    finding = find("SUP002", loss=TRAIN, eval_loss="? 1.5 ? 1.2 ? 1.4 ? 1.6")
    assert finding.severity == "warning"
    assert finding.message == "The held-out loss rose from 1.2 to 1.6 while the training loss fell to 0.1."


@pytest.mark.parametrize(
    ("loss", "held_out"),
    [
        (TRAIN, "? 1.5 ? 1.2 ? 1.1 ? 1.6"),
        (TRAIN, "? 1.5 ? 1.2 ? 1.25 ? 1.3"),
        (TRAIN, "? ? ? ? ? 1.2 ? 1.6"),
        ("2 2 2.1 2 2.1 2 2 2.1", "? 1.5 ? 1.2 ? 1.4 ? 1.6"),
    ],
    ids=["once", "a little", "too few", "training does not fall"],
)
def test_it_stays_silent(loss: str, held_out: str) -> None:
    assert run_check("SUP002", loss=loss, eval_loss=held_out) is None


@pytest.mark.parametrize(
    ("loss", "held_out", "fires"),
    [
        ("2 1.5 1 0.5", "? 1 1.25 1.25", False),  # a quarter above the lowest, and not more
        ("2 1.5 1 0.5", "? 1 1.26 1.26", True),  # three evaluations
        ("2 1.5 1 2", "1.5 1 1.5 1.5", False),  # training ends where it began
        ("2 1.5 1 1.99", "1.5 1 1.5 1.5", True),
        ("2 1.5 1 0.5", "1.5 0 1.5 1.5", False),  # a loss of 0 does not count
    ],
)
def test_exactly_at_a_threshold(loss: str, held_out: str, fires: bool) -> None:
    found = run_check("SUP002", thresholds={"above": 0.25}, loss=loss, eval_loss=held_out)
    assert (found is not None) is fires


def test_it_is_a_remark_where_a_held_out_score_gains() -> None:
    losses: dict[str, Any] = {
        "loss": [2 - 0.04 * n for n in range(30)],
        "eval_loss": [1.0 + 0.02 * n for n in range(30)],
    }
    found = find("SUP002", **losses, eval_score=[0.3 + 0.01 * n for n in range(30)])
    assert found.severity == "info"
    assert find("SUP002", **losses, eval_score=[0.3] * 30).severity == "warning"
