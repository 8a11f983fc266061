from typing import Any

import pytest

from tests.preflight.as_judged import find, run_check


def test_message() -> None:
    found = find(
        "CFG037", {"rollout_responses": 100, "world_size": 8, "framework": "verl", "by_command": True}, loss="0"
    )
    assert (found.severity, found.message) == (
        "error",
        "The rollout (100 responses) is not divisible by the number of GPUs (8).",
    )


@pytest.mark.parametrize(
    ("settings", "severity"),
    [
        ({"rollout_responses": 104, "world_size": 8, "framework": "verl", "by_command": True}, None),
        ({"rollout_responses": 100, "world_size": 8, "framework": "verl", "by_command": False}, "info"),
        (
            {"rollout_responses": 100, "world_size": 8, "framework": "verl", "by_command": True, "dynamic_batch": True},
            None,
        ),
        ({"rollout_responses": 100, "world_size": 8, "framework": "EasyR1", "by_command": True}, "error"),
        ({"rollout_responses": 100, "world_size": 8, "framework": "OpenRLHF", "by_command": True}, None),
        ({"rollout_responses": 100, "world_size": 8, "framework": "verl", "by_command": True, "own_rollout": 1}, None),
        (
            {
                "rollout_responses": 100,
                "world_size": 8,
                "framework": "verl",
                "by_command": True,
                "strategy": "megatron",
            },
            None,
        ),
        ({"rollout_responses": 100, "world_size": 8, "framework": "verl", "by_command": True, "megatron": 2}, None),
        ({"rollout_responses": 100, "world_size": 8, "framework": "verl", "by_command": True, "engine_nodes": 1}, None),
        (
            {"rollout_responses": 100, "world_size": 8, "framework": "verl", "by_command": True, "engine_nodes": 0},
            "error",
        ),
    ],
)
def test_boundary(settings: dict[str, Any], severity: str | None) -> None:
    found = run_check("CFG037", settings, loss="0")
    assert (found.severity if found else None) == severity
