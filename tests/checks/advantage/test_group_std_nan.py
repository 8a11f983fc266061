import math
from typing import Any

import pytest

from grpo_doctor.testing import run_check

SINGLE = "The reward standard deviation is NaN and the mean reward is finite, as in groups of one response."


@pytest.mark.parametrize(
    ("settings", "columns", "severity", "message"),
    [
        ({}, {"advantage_mean": "0x3 NaN"}, "critical", "Advantages are NaN or infinite."),
        ({}, {"advantage_std": "1x3 inf"}, "critical", "Advantages are NaN or infinite."),
        ({}, {"group_rewards": [[[0.0, math.nan]]]}, "critical", "A group contains a NaN reward."),
        (
            {},
            {"reward_std": "0.1x3 NaN", "reward_mean": "0.2x4", "loss": "0.1x3 NaN"},
            "critical",
            SINGLE,
        ),
        ({}, {"reward_std": "0.1x3 NaN", "reward_mean": "0.2x4", "loss": "0.1x4"}, "warning", SINGLE),
        ({}, {"reward_std": "NaNx40", "reward_mean": [n / 40 for n in range(40)]}, "info", SINGLE),
        (
            {"group_size": 1, "advantage_ddof": 1},
            {"loss": "0"},
            "warning",
            "Groups of one response have an undefined standard deviation (0 / 0) and no signal.",
        ),
    ],
)
def test_fires(settings: dict[str, Any], columns: dict[str, Any], severity: str, message: str) -> None:
    found = run_check("ADV013", settings, **columns)
    assert found is not None
    assert (found.severity, found.message) == (severity, message)


@pytest.mark.parametrize(
    ("settings", "columns"),
    [
        ({"group_size": 1, "advantage_ddof": 0}, {"loss": "0"}),
        ({"group_size": 2, "advantage_ddof": 1}, {"loss": "0"}),
        ({}, {"entropy_mean": "NaN", "advantage_std": "0.9"}),
        ({}, {"reward_std": "0.1x3 NaN", "reward_mean": "0.2x3 NaN"}),
        ({}, {"reward_std": "0.1x3 0", "reward_mean": "0.2x4"}),
        ({}, {"group_rewards": [[[0.0, 1.0]]]}),
        ({}, {"group_rewards": [[[1e308, 1e308]]]}),  # the sum is infinite, and no reward is NaN
    ],
)
def test_silent(settings: dict[str, Any], columns: dict[str, Any]) -> None:
    assert run_check("ADV013", settings, **columns) is None
