from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


def test_message() -> None:
    found = find(
        "CFG038",
        {
            "update_prompts": 32,
            "group_size": 4,
            "world_size": 8,
            "micro_responses": 3,
            "framework": "verl",
            "by_command": True,
        },
        loss="0",
    )
    assert (found.severity, found.message) == (
        "error",
        "A GPU's share of a mini-batch, 16 responses, is no whole number of micro-batches of 3.",
    )


@pytest.mark.parametrize(
    ("settings", "severity"),
    [
        (
            {
                "update_prompts": 32,
                "group_size": 4,
                "world_size": 8,
                "micro_responses": 16,
                "framework": "verl",
                "by_command": True,
            },
            None,
        ),
        (
            {
                "update_prompts": 32,
                "group_size": 4,
                "world_size": 8,
                "micro_responses": 32,
                "framework": "verl",
                "by_command": True,
            },
            "error",
        ),
        (
            {
                "update_prompts": 32,
                "group_size": 4,
                "world_size": 8,
                "micro_responses": 32,
                "framework": "verl",
                "by_command": True,
                "sequence_parallel": 2,
            },
            None,
        ),
        (
            {
                "update_prompts": 32,
                "group_size": 4,
                "world_size": 8,
                "micro_responses": 3,
                "framework": "verl",
                "by_command": True,
                "dynamic_batch": True,
            },
            None,
        ),
        (
            {
                "update_prompts": 32,
                "group_size": 4,
                "world_size": 8,
                "micro_responses": 3,
                "framework": "verl",
                "by_command": False,
            },
            None,
        ),
    ],
)
def test_boundary(settings: dict[str, Any], severity: str | None) -> None:
    found = run_check("CFG038", settings, loss="0")
    assert (found.severity if found else None) == severity
