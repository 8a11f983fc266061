from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


def test_message() -> None:
    found = find("CFG053", {"adam_epsilon": 0.0001}, loss="0")
    assert (found.severity, found.message) == (
        "warning",
        "The Adam epsilon (0.0001) is larger than typical policy gradients, so every update is smaller.",
    )


@pytest.mark.parametrize(
    ("settings", "severity"),
    [
        ({"adam_epsilon": 1e-08}, None),
        ({"adam_epsilon": 1e-06}, "info"),
        ({"adam_epsilon": 9.9e-06}, "info"),
        ({"adam_epsilon": 1e-05}, "warning"),
        ({"adam_epsilon": 1e-15}, None),
    ],
)
def test_boundary(settings: dict[str, Any], severity: str | None) -> None:
    found = run_check("CFG053", settings, loss="0")
    assert (found.severity if found else None) == severity
