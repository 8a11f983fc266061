from typing import Any

import pytest

from tests.preflight.as_judged import find, run_check


def test_message() -> None:
    found = find("CFG018", {"update_prompts": 256, "rollout_prompts": 128, "framework": "verl"}, loss="0")
    assert (found.severity, found.message) == (
        "error",
        "The mini-batch (256 prompts) is larger than the rollout (128).",
    )


@pytest.mark.parametrize(
    ("settings", "severity"),
    [
        ({"update_prompts": 128, "rollout_prompts": 128, "framework": "verl"}, None),
        ({"update_prompts": 129, "rollout_prompts": 128, "framework": "verl"}, "error"),
        ({"update_prompts": 256, "rollout_prompts": 128, "framework": "verl", "dynamic_batch": True}, "warning"),
        ({"update_prompts": 256, "rollout_prompts": 128, "framework": "verl", "sizes_unchecked": True}, "warning"),
        ({"update_prompts": 256, "rollout_prompts": 128, "framework": "TRL"}, None),
    ],
)
def test_boundary(settings: dict[str, Any], severity: str | None) -> None:
    found = run_check("CFG018", settings, loss="0")
    assert (found.severity if found else None) == severity
