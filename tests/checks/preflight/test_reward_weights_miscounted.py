from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


def test_message() -> None:
    found = find("CFG029", {"reward_weights_count": 2, "reward_functions_count": 3}, loss="0")
    assert (found.severity, found.message) == (
        "error",
        "The number of reward weights (2) differs from the number of reward functions (3).",
    )


@pytest.mark.parametrize(
    ("settings", "severity"),
    [
        ({"reward_weights_count": 3, "reward_functions_count": 3}, None),
        ({"reward_weights_count": 2}, None),
    ],
)
def test_boundary(settings: dict[str, Any], severity: str | None) -> None:
    found = run_check("CFG029", settings, loss="0")
    assert (found.severity if found else None) == severity
