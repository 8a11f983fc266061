from typing import Any

import pytest

from tests.preflight.as_judged import find, run_check


def test_message() -> None:
    found = find("CFG019", {"update_prompts": 48, "rollout_prompts": 128, "framework": "verl"}, loss="0")
    assert (found.severity, found.message) == (
        "info",
        "The rollout (128 prompts) is not divisible by the mini-batch size (48).",
    )


def test_message_of_responses() -> None:
    settings = {"update_responses": 200, "rollout_prompts": 32, "rollout_responses": 256, "framework": "slime"}
    found = find("CFG019", settings, loss="0")
    assert (found.severity, found.message) == (
        "warning",
        "The rollout (256 responses) is not divisible by the mini-batch size (200).",
    )


@pytest.mark.parametrize(
    ("settings", "severity"),
    [
        ({"update_prompts": 64, "rollout_prompts": 128, "framework": "verl"}, None),
        ({"update_prompts": 48, "rollout_prompts": 128, "framework": "EasyR1"}, "error"),
        ({"update_prompts": 48, "rollout_prompts": 128, "framework": "SkyRL"}, "error"),
        ({"update_prompts": 256, "rollout_prompts": 128, "framework": "verl"}, None),
        ({"update_responses": 128, "rollout_prompts": 32, "rollout_responses": 256, "framework": "slime"}, None),
        ({"update_responses": 96, "rollout_prompts": 32, "rollout_responses": 256, "framework": "NeMo-RL"}, "info"),
        (
            {"update_prompts": 0, "rollout_prompts": 0, "framework": "verl"},
            None,
        ),  # nothing is a whole number of nothing
    ],
)
def test_boundary(settings: dict[str, Any], severity: str | None) -> None:
    found = run_check("CFG019", settings, loss="0")
    assert (found.severity if found else None) == severity
