from typing import Any

from grpo_doctor.testing import find, run_check


def test_mean_and_spread_by_one_factor() -> None:
    columns: dict[str, Any] = {"reward_mean": "0.3x10 0.6x{n}", "reward_std": "0.1x10 0.2x{n}"}
    assert run_check("REW006", **{k: v.format(n=7) for k, v in columns.items()}) is None
    found = find("REW006", **{k: v.format(n=12) for k, v in columns.items()})
    assert found.severity == "warning"
    assert found.message == (
        "Mean and spread of the reward changed by the same factor, 2 and 2, within 10 steps: the scale moved, not "
        "the policy."
    )


def test_learning_a_binary_reward_is_no_shift_of_scale() -> None:
    right = [0.02 * 1.15**i for i in range(26)]
    spread = [(p * (1 - p)) ** 0.5 for p in right]
    assert run_check("REW006", reward_mean=right, reward_std=spread) is None


def test_a_collapse_of_a_binary_reward_is_no_shift_of_scale() -> None:
    assert run_check("REW006", reward_mean="0.4x15 0x15", reward_std="0.49x15 0x15") is None
