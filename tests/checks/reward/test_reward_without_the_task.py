from typing import Any

import pytest

from grpo_doctor.testing import find, run_check

REST: dict[str, Any] = {"reward_std": "0.25x20", "reward_max": "1x20"}


def test_the_rewards_are_reported() -> None:
    found = find("REW022", taskless_reward="1x20", reward_mean="0.5x20", **REST)
    assert (found.severity, found.kind) == ("error", "defect")
    assert (
        found.message == "Responses that ignore the task have a mean reward of 1, compared with 0.5 for all responses."
    )


@pytest.mark.parametrize(
    ("taskless", "severity"),
    [("0.49x20", None), ("0.5x20", "warning"), ("0.89x20", "warning"), ("0.9x20", "error"), ("0x20", None)],
)
def test_boundary(taskless: str, severity: str | None) -> None:
    found = run_check("REW022", taskless_reward=taskless, reward_mean="0.5x20", **REST)
    assert (found.severity if found else None) == severity


def test_equal_rewards_say_nothing() -> None:
    zero: dict[str, Any] = {"reward_std": "0x20", "reward_max": "1x20"}
    assert run_check("REW022", taskless_reward="1x20", reward_mean="1x20", **zero) is None
