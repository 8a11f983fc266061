from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


def test_message() -> None:
    found = find("CFG043", {"world_size": 8, "model_parallel": 3, "by_command": True}, loss="0")
    assert (found.severity, found.message) == (
        "error",
        "The number of GPUs (8) is not divisible by the product of the parallel sizes (3).",
    )


@pytest.mark.parametrize(
    ("settings", "severity"),
    [
        ({"world_size": 8, "model_parallel": 8}, None),
        ({"world_size": 8, "model_parallel": 16}, "error"),
        ({"world_size": 1, "model_parallel": 2, "by_command": False}, "info"),
    ],
)
def test_boundary(settings: dict[str, Any], severity: str | None) -> None:
    found = run_check("CFG043", settings, loss="0")
    assert (found.severity if found else None) == severity
