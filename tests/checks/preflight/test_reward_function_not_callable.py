from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


def test_message() -> None:
    found = find("CFG034", {"refused_rewards": "reward (missing: prompts)"}, loss="0")
    assert (found.severity, found.message) == (
        "error",
        "The reward function reward (missing: prompts) has no **kwargs, so the call raises a TypeError.",
    )


@pytest.mark.parametrize(
    ("settings", "severity"),
    [
        ({"strict_rewards": "reward"}, "warning"),
        ({"refused_rewards": "reward (missing: completions)", "strict_rewards": "other"}, "error"),
        ({}, None),
    ],
)
def test_boundary(settings: dict[str, Any], severity: str | None) -> None:
    found = run_check("CFG034", settings, loss="0")
    assert (found.severity if found else None) == severity
