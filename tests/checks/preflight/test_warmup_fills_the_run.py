from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


def test_message() -> None:
    found = find("CFG051", {"warmup_ratio": 0.95}, loss="0")
    assert (found.severity, found.message) == ("warning", "The learning rate warms up during 95% of the run.")


@pytest.mark.parametrize(
    ("settings", "severity"),
    [
        ({"warmup_ratio": 0.1}, None),
        ({"warmup_ratio": 0.5}, "warning"),
        ({"warmup_ratio": 0.49}, None),
        ({"warmup_steps": 100, "max_steps": 100}, "warning"),
        ({"warmup_steps": 49, "max_steps": 100}, None),
        ({"warmup_steps": 100}, None),
        ({"warmup_steps": 5, "max_steps": 5}, None),
        ({"warmup_steps": -1, "warmup_ratio": 0.0, "max_steps": 100}, None),
        ({"warmup_steps": 100, "max_steps": -1}, None),
    ],
)
def test_boundary(settings: dict[str, Any], severity: str | None) -> None:
    found = run_check("CFG051", settings, loss="0")
    assert (found.severity if found else None) == severity
