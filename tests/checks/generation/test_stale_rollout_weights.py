from typing import Any

import pytest

from grpo_doctor import StepRecord, diagnose
from grpo_doctor.run import run_of
from grpo_doctor.testing import find, run_check

GROWS = "0x1 " + " ".join(str(round(0.02 * i, 3)) for i in range(1, 20))


def test_one_row_before_and_at_the_boundary() -> None:
    assert run_check("GEN002", rollout_mismatch_raw_kl="0x3 0.031x4") is None
    found = find("GEN002", rollout_mismatch_raw_kl="0x3 0.031x5")
    assert (found.severity, found.onset_step, found.detected_step) == ("error", 6, 8)
    assert found.message == (
        "The rollout engine and the trainer agreed on the first row and now differ by 0.031 nats/token. The rollout "
        "engine uses stale weights."
    )


@pytest.mark.parametrize(
    ("columns", "fires"),
    [
        ({"rollout_mismatch_raw_kl": GROWS}, True),
        ({"rollout_mismatch_kl": GROWS}, True),
        (
            {"rollout_mismatch_raw_kl": GROWS, "generation_training_mode": "1x20", "generation_checkpointing": "1x20"},
            False,
        ),
        ({"rollout_mismatch_raw_kl": "0.4x20"}, False),
        ({"rollout_mismatch_raw_kl": "0.0005x5 0.0099x15"}, False),
        ({"rollout_mismatch_raw_kl": "1e-9x20"}, False),
    ],
)
def test_a_mismatch_that_grows_from_0_is_reported(columns: dict[str, Any], fires: bool) -> None:
    assert (run_check("GEN002", **columns) is not None) is fires


@pytest.mark.parametrize(
    ("thresholds", "columns", "severity"),
    [
        ({"equal": 0.25}, {"rollout_mismatch_raw_kl": "0.25x1 20x9"}, None),
        ({"bad": 0.25}, {"rollout_mismatch_raw_kl": "0x3 0.25x9"}, None),
        ({"bad": 0.25}, {"rollout_mismatch_raw_kl": "0x2 9x3 0.25x2 0x4"}, None),
        ({"bad": 0.25}, {"rollout_mismatch_raw_kl": "0 0.25x5 9x3 0x5"}, None),
        ({"equal": 9.0, "times": 2.0}, {"rollout_mismatch_raw_kl": "1x10 2x9"}, None),
        ({"equal": 0.25, "times": 1e9}, {"rollout_mismatch_raw_kl": "0.125x3 3.75x9"}, None),
    ],
)
def test_exactly_at_a_threshold(thresholds: dict[str, float], columns: dict[str, Any], severity: str | None) -> None:
    found = run_check("GEN002", thresholds=thresholds, **columns)
    assert (found.severity if found else None) == severity


@pytest.mark.parametrize(
    ("difference", "fires"),
    [
        ("0.017 0.2x9", True),
        ("0.0504 0.2x9", True),
        ("0.0506 0.2x9", False),  # they never agreed: RAT004
        ("0.017 0.112x9", False),
    ],
)
def test_the_mean_difference_that_trainers_log(difference: str, fires: bool) -> None:
    assert (run_check("GEN002", rollout_logp_diff=difference) is not None) is fires


def test_rounding_to_bf16_on_the_first_row_does_not_hide_stale_weights() -> None:
    found = find("GEN002", rollout_mismatch_kl="1.5e-3x5 4e-3x5 2e-2x5 8e-2x5")
    assert found.severity == "error"


@pytest.mark.parametrize(
    ("columns", "fires"),
    [
        ({"rollout_mismatch_kl": "0x3 1x9"}, True),
        ({"rollout_mismatch_kl": "0x3 1.01x9"}, False),
        ({"rollout_mismatch_kl": "0x3 0.5x9", "learning_rate": "0x12"}, False),
        ({"rollout_mismatch_kl": "0x3 0.5x9", "learning_rate": "1e-6 0x11"}, True),
    ],
)
def test_a_jump_larger_than_an_update_is_not_stale_weights(columns: dict[str, Any], fires: bool) -> None:
    assert (run_check("GEN002", **columns) is not None) is fires


@pytest.mark.parametrize(("steps_per_row", "fires"), [(1, False), (2, True)])
def test_growth_counts_by_step(steps_per_row: int, fires: bool) -> None:
    values = [0.0] * 3 + [1.01] * 9
    run = run_of(StepRecord(step=steps_per_row * n, rollout_mismatch_kl=k3) for n, k3 in enumerate(values))
    assert (diagnose(run).finding("GEN002") is not None) is fires
