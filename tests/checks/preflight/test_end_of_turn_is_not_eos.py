from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


def test_message() -> None:
    found = find("CFG036", {"turn_ends_with": "<|im_end|>", "eos_token": "<|endoftext|>"}, loss="0")
    assert (found.severity, found.message) == (
        "warning",
        "The chat template ends turns with <|im_end|>, but the EOS token is <|endoftext|>.",
    )


@pytest.mark.parametrize(
    ("settings", "severity"),
    [
        ({"eos_token": "<|endoftext|>"}, None),
    ],
)
def test_boundary(settings: dict[str, Any], severity: str | None) -> None:
    found = run_check("CFG036", settings, loss="0")
    assert (found.severity if found else None) == severity
