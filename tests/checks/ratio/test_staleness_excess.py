from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


@pytest.mark.parametrize(
    ("settings", "columns", "message"),
    [
        ({}, {"optimizer_step": [17 * k for k in range(4)]}, "Each rollout is reused for more than 16 updates."),
        ({"num_iterations": 16}, {"loss": "0x3"}, "Each rollout is reused for more than 4 passes."),
        ({"num_iterations": 5}, {"optimizer_step": [0, 16, 32, 48]}, "Each rollout is reused for more than 4 passes."),
        (
            {"num_iterations": 4, "async_level": 9},
            {"loss": "0x3"},
            "Rollouts are more than 8 steps older than the policy.",
        ),
    ],
)
def test_message(settings: dict[str, Any], columns: dict[str, Any], message: str) -> None:
    found = find("RAT006", settings, **columns)
    assert (found.severity, found.message) == ("warning", message)


@pytest.mark.parametrize(
    ("settings", "columns"),
    [
        ({}, {"optimizer_step": [16 * k for k in range(9)]}),
        ({}, {"optimizer_step": [17 * k for k in range(3)]}),  # two intervals
        ({"num_iterations": 4}, {"loss": "0x9"}),
        ({"async_level": 8}, {"loss": "0x9"}),
        ({"num_iterations": 1}, {"optimizer_step": list(range(9))}),
    ],
)
def test_silent(settings: dict[str, Any], columns: dict[str, Any]) -> None:
    assert run_check("RAT006", settings, **columns) is None


@pytest.mark.parametrize(
    ("settings", "age", "message"),
    [
        ({}, "8x5", None),
        ({}, "8.5x5", "Samples are 8.5 updates old when they are used, which exceeds the limit of 8."),
        ({"async_level": 2}, "2x5", None),
        ({"async_level": 2}, "2.1x5", "Samples are 2.1 updates old when they are used, which exceeds the limit of 2."),
        ({"async_level": 12}, "9x5", None),
    ],
)
def test_the_recorded_age_of_the_samples(settings: dict[str, Any], age: str, message: str | None) -> None:
    found = run_check("RAT006", settings, staleness=age)
    assert (found.message if found else None) == message
