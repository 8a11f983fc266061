from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


def test_message() -> None:
    found = find("CFG064", {"max_steps": 5, "warmup_ratio": 0.1, "warmup_begins_at_zero": True}, loss="0")
    assert found.message == "The first of 5 updates has learning rate 0, because of the warm-up."


@pytest.mark.parametrize(
    ("settings", "severity"),
    [
        ({"max_steps": 1, "warmup_steps": 5}, "warning"),
        ({"max_steps": 10, "warmup_steps": 1}, "info"),
        ({"max_steps": 11, "warmup_steps": 1}, None),
        ({"max_steps": 10, "warmup_steps": 0}, None),
        ({"max_steps": -1, "warmup_ratio": 0.1}, None),
        ({"max_steps": 10, "warmup_steps": 1, "warmup_begins_at_zero": False}, None),
    ],
)
def test_boundary(settings: dict[str, Any], severity: str | None) -> None:
    found = run_check("CFG064", {"warmup_begins_at_zero": True, **settings}, loss="0")
    assert (found.severity if found else None) == severity
