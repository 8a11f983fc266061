from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


def test_message() -> None:
    found = find("CFG030", {"logging_steps": 50}, loss="0")
    assert (found.severity, found.message) == (
        "info",
        "Metrics are logged only every 50 steps.",
    )


@pytest.mark.parametrize(
    ("settings", "severity"),
    [
        ({"logging_steps": 10}, None),
        ({"logging_steps": 11}, "info"),
    ],
)
def test_boundary(settings: dict[str, Any], severity: str | None) -> None:
    found = run_check("CFG030", settings, loss="0")
    assert (found.severity if found else None) == severity
