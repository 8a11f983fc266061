"""Checks of the family that need no token batch."""

import pytest

from grpo_doctor.testing import find, run_check


@pytest.mark.parametrize(
    ("k1", "k3", "severity"),
    [
        ("0.0020x10", "0.0020x10", None),
        ("0.015x10", "0.005x10", None),
        ("0.0155x10", "0.005x10", "warning"),
        ("0.064x10", "0.013x10", "error"),
        ("0.5x10", "0.2x10", None),
        ("0.0035x10", "0.05x10", None),
        ("0.0035x10", "0.054x10", "error"),
    ],
)
def test_k1_and_k3_agree_where_the_engine_records_what_it_samples(k1: str, k3: str, severity: str | None) -> None:
    found = run_check("MIS013", rollout_mismatch_k1=k1, rollout_mismatch_kl=k3)
    assert (found.severity if found else None) == severity


def test_names_the_side_and_the_mean_weight() -> None:
    found = find("MIS013", rollout_mismatch_k1="0.0020x5 0.06x8", rollout_mismatch_kl="0.0020x5 0.01x8")
    assert found.message == (
        "The sampler excludes or penalises tokens that the loss does not: the mean importance weight is 0.95 instead "
        "of 1."
    )
    found = find("MIS013", rollout_mismatch_k1="0.0035x8", rollout_mismatch_kl="1.0035x8")
    assert found.message == (
        "The rollout engine's log-probabilities belong to tokens other than those sampled: the mean importance weight "
        "is 2 instead of 1."
    )


@pytest.mark.parametrize(
    ("engine", "trainer", "fires"),
    [
        ("0.5x20", "0.5x10 0.54x10", False),
        ("0.5x20", "0.5x10 0.6x10", True),
        ("0.5x10 0.53x10", "0.5x10 0.6x10", False),
        ("0.5x10 0.51x10", "0.5x10 0.6x10", True),
    ],
)
def test_a_frozen_engine_stays_while_the_trainer_moves(engine: str, trainer: str, fires: bool) -> None:
    assert (run_check("MIS014", rollout_surprise=engine, trainer_surprise=trainer) is not None) == fires


def test_says_how_far_each_side_has_moved() -> None:
    assert find("MIS014", rollout_surprise="0.5x20", trainer_surprise="0.5x10 0.75x10").message == (
        "Since the start, the trainer's log-probability of sampled tokens has changed by 0.25 nats/token, but the "
        "rollout engine's by only 0. The engine does not receive the updates."
    )


GROWING = "0.0001x5 0.0002 0.0003 0.0004 0.0005 0.0006 0.0007 0.0008"


@pytest.mark.parametrize(
    ("k3", "severity"),
    [
        (GROWING, None),  # one row above the limits
        (f"{GROWING} 0.0009", "warning"),
        ("0.0001x5 0.0004x20", None),  # exactly four times
        ("0.0002x5 0.00049x20", None),
        ("0.0001x5 0.0007x20", None),  # a new level, and no further growth
        ("0.0001 0.0009x20", None),
        ("0.0006x40", None),
    ],
)
def test_a_small_difference_that_keeps_growing_is_reported(k3: str, severity: str | None) -> None:
    found = run_check("MIS015", rollout_mismatch_kl=k3)
    assert (found.severity if found else None) == severity


@pytest.mark.parametrize(
    ("rate", "why"),
    [("1e-6x13", "The engine's weights lag, or its numerics drift"),
     ("0x13", "The learning rate is 0, so the weights cannot be stale: the engine's numerics drift"),
     ("1e-6 0x12", "The engine's weights lag, or its numerics drift")],
)  # fmt: skip
def test_at_a_learning_rate_of_0_the_weights_do_not_lag(rate: str, why: str) -> None:
    found = find("MIS015", rollout_mismatch_kl=f"{GROWING} 0.0009", learning_rate=rate)
    assert found.message == (
        "The difference between rollout engine and trainer has grown from 0.0001 to 0.0007 nats/token and keeps growing. "
        f"{why}."
    )
