from typing import Any

import pytest

from tests.preflight.as_judged import find, run_check

SHARE = {"update_prompts": 32, "group_size": 4, "world_size": 8, "framework": "verl", "by_command": True}
"""Sixteen responses of a mini-batch on each GPU."""


def test_message() -> None:
    found = find("CFG038", SHARE | {"micro_responses": 3}, loss="0")
    assert (found.severity, found.message) == (
        "error",
        "The mini-batch per GPU (16 responses) is not divisible by the micro-batch size (3).",
    )


@pytest.mark.parametrize(
    ("settings", "severity"),
    [
        ({"micro_responses": 16}, None),
        ({"micro_responses": 32}, "error"),
        ({"micro_responses": 32, "sequence_parallel": 2}, None),
        ({"micro_responses": 1, "update_prompts": 1}, "error"),
        ({"micro_responses": 1, "update_prompts": 2}, None),
        ({"micro_responses": 3, "engine_nodes": 0}, "error"),
        ({"micro_responses": 3, "engine_nodes": 1}, None),
        ({"micro_responses": 3, "framework": "SkyRL"}, "error"),
        ({"micro_responses": 3, "dynamic_batch": True}, None),
        ({"micro_responses": 3, "by_command": False}, "info"),
    ],
)
def test_boundary(settings: dict[str, Any], severity: str | None) -> None:
    found = run_check("CFG038", SHARE | settings, loss="0")
    assert (found.severity if found else None) == severity
