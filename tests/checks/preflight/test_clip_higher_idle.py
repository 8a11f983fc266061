from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


def test_message() -> None:
    found = find("CFG023", {"updates_per_rollout": 1, "epsilon": 0.2, "epsilon_high": 0.28}, loss="0")
    assert (found.severity, found.message) == (
        "info",
        "The upper clip bound (0.28) has no effect: with one update per rollout, every ratio is 1.",
    )


@pytest.mark.parametrize(
    ("settings", "severity"),
    [
        ({"updates_per_rollout": 2, "epsilon": 0.2, "epsilon_high": 0.28}, None),
        ({"updates_per_rollout": 1, "epsilon": 0.2, "epsilon_high": 0.2}, None),
        ({"updates_per_rollout": 1, "epsilon": 0.2, "epsilon_high": 0.28, "async_level": 1}, None),
        ({"updates_per_rollout": 1, "epsilon": 0.2, "epsilon_high": 0.28, "ratio_to_rollout": True}, None),
        ({"updates_per_rollout": 1, "epsilon": 0.2, "epsilon_high": 0.28, "ratio_to_rollout": False}, "info"),
        ({"updates_per_rollout": 1, "epsilon": 0.2, "epsilon_high": 0.28, "async_level": 0}, "info"),
    ],
)
def test_boundary(settings: dict[str, Any], severity: str | None) -> None:
    found = run_check("CFG023", settings, loss="0")
    assert (found.severity if found else None) == severity
