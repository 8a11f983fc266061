from typing import Any

import pytest

from grpo_doctor.testing import run_check

DROP = "0.3 0.31 0.29 0.3 0.31 0.3 0.25 0.1 0.05 0x6"
RISE = "0.02 0.15 0.2 0.26 0.3 0.34 0.41 0.45 0.5 0.55 0.61 0.66 0.7 0.72 0.74"


def test_one_row_before_and_at_the_boundary() -> None:
    cut = "0x4 0.15x11"
    assert run_check("LEN002", response_length_mean="100x4 200x11", truncated_rate=cut) is None
    assert run_check("LEN002", response_length_mean="100x4 201x6 100x5", truncated_rate=cut) is None
    found = run_check("LEN002", response_length_mean="100x4 201x7 100x4", truncated_rate=cut)
    assert found is not None
    assert (found.severity, found.onset_step, found.detected_step) == ("warning", 6, 11)
    assert found.message == "The mean response length grew from 100 to 201 tokens without a reward gain."


def test_a_first_row_that_is_short_by_chance_is_not_an_explosion() -> None:
    one_prompt = "90x1 220 400 150 300 500 180 260 420 150 240 380 170 310 230"  # a factor of two from row to row
    columns: dict[str, Any] = {"truncated_rate": "0x4 0.2x11", "reward_mean": "0.3x15"}
    assert run_check("LEN002", response_length_mean=one_prompt, **columns) is None
    assert run_check("LEN002", response_length_mean="90x1 260x14", **columns) is not None


def test_length_explains_no_fall_without_more_truncation() -> None:
    columns: dict[str, Any] = {"response_length_mean": "100x5 300x10", "reward_mean": DROP}
    assert run_check("LEN002", **columns) is not None
    assert run_check("LEN002", **columns, truncated_rate="0.02x15") is None
    assert run_check("LEN002", **columns, truncated_rate="0.02x5 0.2x10") is not None


@pytest.mark.parametrize(
    ("long", "told"),
    [
        ("300x5 449x14", None),
        ("300x5 450x14", "The mean response length grew from 300 to 450 tokens since the best reward."),
        ("100x5 300x14", "The mean response length grew from 100 to 300 tokens since the best reward."),
    ],
)
def test_earlier_growth_of_the_length_is_not_the_cause_of_the_fall(long: str, told: str | None) -> None:
    found = run_check("LEN002", response_length_mean=f"100x1 {long}", reward_mean="0.1 0.6x5 0x14")
    assert (found and found.message) == told


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"truncated_rate": "0x4 0.14x11"}, None),
        ({"max_new_tokens": "400x15"}, None),
        ({"max_new_tokens": "399x15"}, "warning"),
        ({"reward_mean": DROP}, "error"),
        ({"reward_mean": RISE}, None),
        ({"reward_mean": RISE, "truncated_rate": "0x4 0.9x11"}, "warning"),
        ({"reward_mean": "0.3x15", "truncated_rate": "0x4 0.9x11"}, "warning"),  # it may still rise
        ({"reward_mean": RISE, "valid_rate": "0.9x4 0.6x11"}, "error"),
        ({"reward_mean": RISE, "valid_rate": "0.9x4 0.61x11"}, None),
    ],
)
def test_levels(columns: dict[str, Any], expected: str | None) -> None:
    found = run_check("LEN002", response_length_mean="100x4 300x11", **columns)
    assert (found.severity if found else None) == expected


@pytest.mark.parametrize(
    ("reward", "rows", "severity"),
    [
        pytest.param([0.3], 22, "error", id="on three rows from 20 rewards on"),
        pytest.param([0.3], 21, "warning", id="it may still rise"),
        pytest.param([0.3 + 0.001 * row for row in range(23)], 23, "warning", id="it has gone up"),
    ],
)
def test_a_reward_that_does_not_follow_is_an_error_from_the_20th_on(
    reward: list[float], rows: int, severity: str
) -> None:
    found = run_check(
        "LEN002",
        response_length_mean=[100.0] * 4 + [300.0] * (rows - 4),
        truncated_rate=[0.0] * 4 + [0.9] * (rows - 4),
        reward_mean=(reward * rows)[:rows],
    )
    assert found is not None
    assert found.severity == severity


def test_invalid_by_a_quarter_more_and_the_onset_above_a_quarter_more() -> None:
    invalid = run_check(
        "LEN002", thresholds={"invalid_rise": 0.25}, response_length_mean="100x4 300x11", fallback_rate="0x4 0.25x11"
    )
    assert invalid is not None
    found = run_check("LEN002", response_length_mean="100x5 125x5 300x9", truncated_rate="0x10 0.9x9")
    assert found is not None
    assert found.onset_step == 11


def test_growth_with_a_reward_gain_is_not_flagged() -> None:
    cut = "0x4 0.3x36"
    found = run_check(
        "LEN002", response_length_mean="100x4 250x36", truncated_rate=cut, reward_mean="0.1x4 0.1x4 0.6x32"
    )
    assert found is not None
    assert (found.severity, found.message) == (
        "warning",
        "The mean response length grew from 100 to 250 tokens, and more responses reach the length limit.",
    )
