from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


def test_message() -> None:
    found = find("CFG024", {"temperature": 0.9}, loss="0")
    assert (found.severity, found.message) == (
        "info",
        "Rollouts are sampled at temperature 0.9; the loss must use the same temperature.",
    )


@pytest.mark.parametrize(
    ("settings", "severity"),
    [
        ({"temperature": 1.0}, None),
        ({"temperature": 0.6}, "info"),
        ({"temperature": 0.59}, None),
        ({"temperature": 1.5}, "info"),
        ({"temperature": 1.51}, None),
    ],
)
def test_boundary(settings: dict[str, Any], severity: str | None) -> None:
    found = run_check("CFG024", settings, loss="0")
    assert (found.severity if found else None) == severity
