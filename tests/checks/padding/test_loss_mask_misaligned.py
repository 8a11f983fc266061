from typing import Any

import pytest

from grpo_doctor.testing import find, run_check
from tests.probes.broken_styles import finding


def test_one_row_before_and_at_the_boundary() -> None:
    assert run_check("PAD002", prompt_tokens_in_mask="0x3 1x2 0x3", response_tokens_outside_mask="0x8") is None
    found = find("PAD002", prompt_tokens_in_mask="0x3 64x3 0x2", response_tokens_outside_mask="0x3 64x3 0x2")
    assert (found.severity, found.confidence, found.onset_step, found.detected_step) == ("critical", "high", 4, 6)
    assert (
        found.message
        == "The loss mask includes 64 prompt tokens and 0 padding tokens, and excludes 64 response tokens."
    )


@pytest.mark.parametrize(
    ("settings", "columns", "expected"),
    [
        ({}, {"response_tokens_outside_mask": "1x5"}, "error"),
        ({}, {"response_tokens_outside_mask": "0x5", "pad_tokens_in_mask": "1x5"}, "critical"),
        ({}, {"response_tokens_outside_mask": "40x5", "truncated_rate": "0.1x5"}, "error"),
        (
            {"mask_truncated_completions": True},
            {"response_tokens_outside_mask": "40x5", "truncated_rate": "0.1x5"},
            None,
        ),
        (
            {"mask_truncated_completions": True},
            {"response_tokens_outside_mask": "8x5", "truncated_rate": "0x5"},
            "error",
        ),
        ({}, {"response_tokens_outside_mask": "0x5"}, None),
    ],
)
def test_levels(settings: dict[str, Any], columns: dict[str, Any], expected: str | None) -> None:
    found = run_check("PAD002", settings, prompt_tokens_in_mask="0x5", **columns)
    assert (found.severity if found else None) == expected


@pytest.mark.parametrize("style", ["left", "shifted", "packed", "turns"])
def test_a_penalty_that_spares_the_end_token(style: str) -> None:
    found = finding("KL leaves out the end token", style)
    assert found is not None
    assert found.severity == "error"
    assert found.message == (
        "The KL penalty excludes the last token of every response, but the policy loss includes it."
    )


def test_an_end_token_without_its_advantage_is_left_out() -> None:
    found = finding("advantage leaves out the end token", "left")
    assert found is not None
    assert found.severity == "critical"
    assert found.evidence["missed"] == found.evidence["last"] == found.evidence["wrong"] > 0
    assert found.evidence["extra"] == 0
