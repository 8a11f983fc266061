from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


def test_mean_and_spread_by_one_factor() -> None:
    columns: dict[str, Any] = {"reward_mean": "0.3x10 0.6x{n}", "reward_std": "0.1x10 0.2x{n}"}
    assert run_check("REW006", **{k: v.format(n=7) for k, v in columns.items()}) is None
    found = find("REW006", **{k: v.format(n=12) for k, v in columns.items()})
    assert found.severity == "warning"
    assert found.message == (
        "The mean and the standard deviation of the reward changed by similar factors (2 and 2) within 10 steps. The "
        "reward scale changed, not the policy."
    )


def test_learning_a_binary_reward_is_not_a_shift_of_scale() -> None:
    right = [0.02 * 1.15**i for i in range(26)]
    spread = [(p * (1 - p)) ** 0.5 for p in right]
    assert run_check("REW006", reward_mean=right, reward_std=spread) is None


def test_a_collapse_of_a_binary_reward_is_not_a_shift_of_scale() -> None:
    assert run_check("REW006", reward_mean="0.4x15 0x15", reward_std="0.49x15 0x15") is None


@pytest.mark.parametrize(
    ("thresholds", "mean", "spread", "fires"),
    [
        ({}, "0.6x10 0.3x12", "0.2x10 0.1x12", True),  # exactly half
        ({}, "0.6x10 0.31x12", "0.2x10 0.1x12", False),
        ({}, "0.6x10 0.3x12", "0.2x10 0.11x12", False),
        ({"agree": 0.25}, "0.25x10 0.75x12", "0.125x10 0.5x12", False),  # by 3 and by 4
        ({"agree": 0.26}, "0.25x10 0.75x12", "0.125x10 0.5x12", True),
        ({"agree": 0.25}, "0.125x10 0.625x12", "0.125x10 0.5x12", False),  # by 5 and by 4
        ({"agree": 0.26}, "0.125x10 0.625x12", "0.125x10 0.5x12", True),
        ({}, "-0.6x10 0.3x12", "0.2x10 0.1x12", False),
    ],
)
def test_exactly_at_a_threshold(thresholds: dict[str, float], mean: str, spread: str, fires: bool) -> None:
    found = run_check("REW006", thresholds=thresholds, reward_mean=mean, reward_std=spread)
    assert (found is not None) is fires


def test_a_change_within_the_noise_of_the_reward_is_not_a_shift_of_scale() -> None:
    """The medians are 0.3 and 0.6, with a noise of more than 0.1."""
    assert run_check("REW006", reward_mean="0.6 0 " * 5 + "1.2 0 " * 6, reward_std="0.1x10 0.2x12") is None
