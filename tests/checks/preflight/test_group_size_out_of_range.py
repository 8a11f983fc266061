from typing import Any

import pytest

from tests.preflight.as_judged import find, run_check


def test_message() -> None:
    found = find("CFG001", {"group_size": 2}, reward_mean="0.5x10")
    assert (found.severity, found.message) == (
        "info",
        "The group size is 2: the mean of so few responses is a poor baseline.",
    )


@pytest.mark.parametrize(
    ("settings", "severity"),
    [
        ({"group_size": 1}, "warning"),
        ({"group_size": 3}, "info"),
        ({"group_size": 4}, None),
        ({"group_size": 1, "group_baseline": False}, None),
        ({"group_size": 1, "group_baseline": True, "framework": "verl"}, "warning"),
        ({"group_size": 1, "group_baseline": True, "framework": "NeMo-RL", "max_steps": 1}, "info"),
        ({"group_size": 1, "group_baseline": True, "framework": "NeMo-RL", "max_steps": 2}, "warning"),
        ({"group_size": 1, "framework": "ROLL"}, "info"),
        ({"group_size": 1, "group_baseline": True, "framework": "TRL"}, None),
    ],
)
def test_levels(settings: dict[str, Any], severity: str | None) -> None:
    found = run_check("CFG001", settings, reward_mean="0.5x10")
    assert (found.severity if found else None) == severity
