from typing import Any

import pytest

from grpo_doctor.testing import find, run_check

FLAT = "0.3 0.31 0.29 0.3 0.31 0.3 0.29 0.31 0.3 0.3 0.31 0.29 0.3 0.31"
RISE = "0.02 0.15 0.2 0.26 0.3 0.34 0.41 0.45 0.5 0.55 0.61 0.66 0.7 0.72"


def test_one_row_before_and_at_the_boundary() -> None:
    assert run_check("LEN001", response_length_mean="100x4 24.9x2 100x4") is None
    assert run_check("LEN001", response_length_mean="100x4 25x6") is None
    found = run_check("LEN001", response_length_mean="100x4 24.9x3 100x3")
    assert found is not None
    assert (found.severity, found.onset_step, found.detected_step) == ("warning", 5, 7)
    assert found.message == "The mean response length fell from 100 to 24.9 tokens."


@pytest.mark.parametrize(
    ("length", "reward", "expected"),
    [
        ("53x1 2.6x13", FLAT, "error"),
        ("53x1 5x13", FLAT, "error"),
        ("53x6 5x8", FLAT, "error"),
        ("53x7 5x7", FLAT, "warning"),
        ("53x1 7.9x13", FLAT, "error"),
        ("53x1 8x13", FLAT, "warning"),  # such a dip may recover
        ("53x1 8x20", f"{FLAT} 0.3 0.31 0.29 0.3 0.31 0.3 0.29", "warning"),
        ("53x1 8x21", f"{FLAT} 0.3 0.31 0.29 0.3 0.31 0.3 0.29 0.3", "error"),
        ("53x1 5x13", RISE, "warning"),
        ("53x1 2x13", RISE, "error"),
        ("53x1 1.5x13", RISE, "critical"),
        ("53x1 1.6x13", RISE, "error"),
        ("7x1 1x13", FLAT, None),
        ("100x14", FLAT, None),
    ],
)
def test_levels(length: str, reward: str, expected: str | None) -> None:
    found = run_check("LEN001", response_length_mean=length, reward_mean=reward)
    assert (found.severity if found else None) == expected


def test_a_first_row_that_is_long_by_chance_is_not_a_collapse() -> None:
    one_prompt = "400x1 120 60 200 90 50 160 240 70 95 60 130 80 65 180"  # a factor of two from row to row
    assert run_check("LEN001", response_length_mean=one_prompt, reward_mean="0.3x15") is None
    assert run_check("LEN001", response_length_mean="400x1 95x14", reward_mean="0.3x15") is not None


def test_the_second_row_and_a_dip_that_recovers() -> None:
    collapse: dict[str, Any] = {"response_length_mean": "53x1 2.6x13", "reward_mean": FLAT}
    found = run_check("LEN001", **collapse)
    assert found is not None
    assert found.onset_step == 2
    dip = run_check("LEN001", response_length_mean="305 131 50 31 30 30 45 77x7", reward_mean=RISE)
    assert dip is not None
    assert (dip.severity, dip.cleared) == ("warning", True)


def test_a_first_row_of_eight_tokens_counts_and_the_onset_is_below_nine_tenths() -> None:
    assert run_check("LEN001", response_length_mean="8x1 1x13") is not None
    found = run_check("LEN001", response_length_mean="100 90x3 20x8")
    assert found is not None
    assert found.onset_step == 5


def test_it_collapsed_where_the_reward_fell_with_it_not_where_it_became_concise() -> None:
    length = "100x3 60x27 10x20"
    found = run_check("LEN001", response_length_mean=length, reward_mean="0.5x3 0.7x27 0.05x20")
    assert found is not None
    assert found.onset_step == 31
    without = run_check("LEN001", response_length_mean=length)
    assert without is not None
    assert without.onset_step == 4


@pytest.mark.parametrize(("top", "severity"), [(0.95, "info"), (0.8, "warning")])
def test_a_task_that_is_solved_in_few_tokens_gets_a_remark(top: float, severity: str) -> None:
    reward = [min(top, 0.2 + 0.03 * n) for n in range(60)]
    found = find("LEN001", response_length_mean=[400.0] * 40 + [60.0] * 20, reward_mean=reward)
    assert found.severity == severity
