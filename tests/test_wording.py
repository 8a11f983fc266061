"""Numbers and counts in text that a user reads."""

import pytest

from grpo_doctor.diagnosis.wording import counted, number, rendered


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1234.5, "1234"),
        (0.0012345, "0.00123"),
        (99999.0, "99999"),
        (1e7, "1e+07"),
        (-0.0, "0"),
        (float("nan"), "unknown"),
    ],
)
def test_writes_a_number_without_an_exponent_between_a_thousandth_and_99_999(value: float, text: str) -> None:
    assert number(value) == text


def test_writes_the_sign_of_a_difference_without_an_exponent() -> None:
    assert [number(value, sign="+") for value in (-1120.0, 1120.0, 0.25)] == ["-1120", "+1120", "+0.25"]


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("{x:.3g}", "12345"),
        ("{y:.0f}", "0"),
        ("{y:.0%}", "0%"),
        ("{y:+.2f}", "0.00"),
        ("{z}", "any-word"),
        ("{n} of {n:.0f}", "3 of 3"),
    ],
)
def test_renders_numbers_of_a_message_without_exponent_and_negative_zero(message: str, text: str) -> None:
    assert rendered(message, {"x": 12345.0, "y": -0.0001, "z": "any-word", "n": 3}) == text


def test_counts_one_step_and_two_steps() -> None:
    assert [counted(n, "step") for n in (0, 1, 2, 1200)] == ["0 steps", "1 step", "2 steps", "1,200 steps"]
