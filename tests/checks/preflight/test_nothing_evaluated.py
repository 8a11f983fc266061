from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


def test_message() -> None:
    found = find("CFG025", {"evaluation": "no"}, loss="0")
    assert (found.severity, found.message) == (
        "info",
        "No evaluation runs during training.",
    )


@pytest.mark.parametrize(
    ("settings", "severity"),
    [
        ({"evaluation": "steps"}, None),
        ({"evaluation": -1}, "info"),
        ({"evaluation": 0}, "info"),
        ({"evaluation": 1}, None),
    ],
)
def test_boundary(settings: dict[str, Any], severity: str | None) -> None:
    found = run_check("CFG025", settings, loss="0")
    assert (found.severity if found else None) == severity
