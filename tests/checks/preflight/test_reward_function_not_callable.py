from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


def test_message() -> None:
    found = find("CFG034", {"refused_rewards": "`reward` accepts neither prompts nor **kwargs"}, loss="0")
    assert (found.severity, found.message) == (
        "error",
        "The reward function `reward` accepts neither prompts nor **kwargs, so the call raises a TypeError.",
    )


@pytest.mark.parametrize(
    ("settings", "severity"),
    [
        ({"strict_rewards": "`reward` does not accept **kwargs"}, "warning"),
        ({"refused_rewards": "`reward` accepts neither completions nor **kwargs", "strict_rewards": "other"}, "error"),
        ({}, None),
    ],
)
def test_boundary(settings: dict[str, Any], severity: str | None) -> None:
    found = run_check("CFG034", settings, loss="0")
    assert (found.severity if found else None) == severity
