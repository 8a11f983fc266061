from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


def test_message() -> None:
    found = find("CFG014", {"temperature": 0.0, "group_baseline": True}, loss="0")
    assert (found.severity, found.message) == (
        "error",
        "Rollouts are greedy (temperature 0): all responses to a prompt are identical, so every advantage is 0.",
    )


@pytest.mark.parametrize(
    ("settings", "severity"),
    [
        ({"temperature": 0.01, "group_baseline": True}, None),
        ({"temperature": 0.0, "group_baseline": False}, None),
        ({"temperature": 0.0}, None),
    ],
)
def test_boundary(settings: dict[str, Any], severity: str | None) -> None:
    found = run_check("CFG014", settings, loss="0")
    assert (found.severity if found else None) == severity
