from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


def test_message() -> None:
    found = find("CFG007", {"entropy_target": 5.0}, entropy_mean="0.8")
    assert (found.severity, found.message) == (
        "warning",
        "The target of the adaptive entropy bonus is 5 nats per token; trained models have 0.1 to 1.",
    )


@pytest.mark.parametrize(
    ("settings", "entropy", "severity"),
    [
        ({"entropy_target": 1.0}, "0.3", None),
        ({"entropy_target": 1.1}, "?", "info"),
        ({"entropy_target": 2.0}, "0.3", "info"),
        ({"entropy_target": 2.1}, "0.3", "warning"),
        ({"entropy_target": 2.1}, "2.2", None),
        ({"entropy_target": 2.1}, "2.1", "warning"),
        ({"entropy_target": 5.0, "use_adaptive_entropy": False}, "0.3", None),
    ],
)
def test_boundary(settings: dict[str, Any], entropy: str, severity: str | None) -> None:
    found = run_check("CFG007", settings, loss="0", entropy_mean=entropy)
    assert (found.severity if found else None) == severity
