from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


def test_one_row_before_and_at_the_boundary() -> None:
    assert run_check("TOK001", first_token_valid_rate="0.76x6") is None
    assert run_check("TOK001", first_token_valid_rate="0.9x9") is None
    found = find("TOK001", first_token_valid_rate="0.76x7")
    assert (found.severity, found.onset_step, found.detected_step) == ("warning", 5, 7)
    assert found.message == (
        "Only 76% of the first responses begin with a valid first token. Compare the token ids of supervised and RL "
        "prompts."
    )


@pytest.mark.parametrize(
    "columns",
    [
        {"first_token_valid_rate": "0.984x12"},
        {"first_token_valid_rate": "0.76x12", "temperature": "1.5x12"},
        {"first_token_valid_rate": "0.76x12", "rollout_mismatch_kl": "0.3x12"},
    ],
)
def test_healthy_first_tokens_and_broken_generators_are_left_out(columns: dict[str, Any]) -> None:
    assert run_check("TOK001", **columns) is None


def test_a_format_that_is_learned_again_clears() -> None:
    assert find("TOK001", first_token_valid_rate="0.76x7 0.97x12").cleared


@pytest.mark.parametrize(
    ("thresholds", "columns", "fires"),
    [
        ({"healthy": 0.5}, {}, False),
        ({"healthy": 0.51}, {}, True),
        ({}, {"temperature": "1.1x9"}, True),
        ({}, {"temperature": "1.11x9"}, False),
        ({}, {"rollout_mismatch_kl": "0.001x9"}, True),
        ({}, {"rollout_mismatch_kl": "-0.0011x9"}, False),
    ],
)
def test_exactly_at_a_threshold(thresholds: dict[str, float], columns: dict[str, Any], fires: bool) -> None:
    found = run_check("TOK001", thresholds=thresholds, first_token_valid_rate="0.5x9", **columns)
    assert (found is not None) is fires
