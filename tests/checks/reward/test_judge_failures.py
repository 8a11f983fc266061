import pytest

from grpo_doctor.testing import find, run_check


def test_two_percent_is_a_warning_and_ten_an_error() -> None:
    assert run_check("REW004", judge_failure_rate="0.02x20") is None
    found = find("REW004", judge_failure_rate="0.021x12")
    assert (found.severity, found.detected_step) == ("warning", 12)
    assert found.message == "The judge failed on 2.1% of the responses in the last 10 steps."
    assert find("REW004", judge_failure_rate="0.101x20").severity == "error"


def test_a_judge_that_answers_is_not_flagged() -> None:
    assert run_check("REW004", judge_failure_rate="0x20 0.1 0x20") is None


@pytest.mark.parametrize(("rate", "severity"), [("0.25x20", None), ("0.5x20", "warning"), ("0.51x20", "error")])
def test_exactly_at_a_threshold(rate: str, severity: str | None) -> None:
    found = run_check("REW004", thresholds={"warn": 0.25, "bad": 0.5}, judge_failure_rate=rate)
    assert (found.severity if found else None) == severity
