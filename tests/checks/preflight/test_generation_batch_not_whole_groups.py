from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


def test_message() -> None:
    found = find("CFG017", {"generation_batch": 12, "group_size": 8}, loss="0")
    assert (found.severity, found.message) == (
        "error",
        "The generation batch (12 responses) is not divisible by the group size (8).",
    )


def test_message_without_a_declared_number_of_processes() -> None:
    found = find("CFG017", {"batch_a_process": 4, "group_size": 16}, loss="0")
    assert (found.severity, found.message) == (
        "info",
        "The generation batch (4 responses per process) is not divisible by the group size (16); the trainer starts only with a multiple of 4 processes.",
    )


@pytest.mark.parametrize(
    ("settings", "severity"),
    [
        ({"generation_batch": 16, "group_size": 8}, None),
        ({"generation_batch": 8, "group_size": 8}, None),
        ({"generation_batch": 7, "group_size": 8}, "error"),
        ({"group_size": 8}, None),
        ({"batch_a_process": 16, "group_size": 8}, None),
        ({"batch_a_process": 4, "group_size": float("inf")}, "info"),
        ({"batch_a_process": float("inf"), "group_size": 8}, "info"),
        ({"generation_batch": 7, "group_size": 8, "own_program": True}, "info"),
    ],
)
def test_boundary(settings: dict[str, Any], severity: str | None) -> None:
    found = run_check("CFG017", settings, loss="0")
    assert (found.severity if found else None) == severity
