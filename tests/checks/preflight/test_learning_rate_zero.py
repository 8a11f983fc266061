from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


def test_message() -> None:
    found = find("CFG031", {"learning_rate": 0.0}, loss="0")
    assert (found.severity, found.message) == (
        "error",
        "The learning rate is 0: the policy does not change.",
    )


@pytest.mark.parametrize(
    ("settings", "severity"),
    [
        ({"learning_rate": 1e-08}, "warning"),
        ({"learning_rate": 1.1e-08}, None),
        ({"learning_rate": -1e-08}, None),
        ({}, None),
        ({"learning_rate": 0.0, "group_baseline": True}, "error"),
        ({"learning_rate": 0.0, "group_baseline": False}, "warning"),
    ],
)
def test_boundary(settings: dict[str, Any], severity: str | None) -> None:
    found = run_check("CFG031", settings, loss="0")
    assert (found.severity if found else None) == severity
