import pytest

from grpo_doctor.testing import find, run_check


def test_five_invalid_steps_that_earn_more_than_half() -> None:
    assert run_check("REW005", reward_mean="0.6x5 0.5x4", fallback_rate="0.05x5 1x4") is None
    found = find("REW005", reward_mean="0.6x5 0.5x5", fallback_rate="0.05x5 1x5")
    assert (found.severity, found.detected_step) == ("error", 10)
    assert found.message == (
        "The reward is 0.5 on steps where almost every response is invalid, and 0.6 on steps where most responses are "
        "valid. A fallback is scored instead of the response."
    )


def test_half_is_not_more_than_half() -> None:
    assert run_check("REW005", reward_mean="0.6x5 0.3x5", valid_rate="0.95x5 0x5") is None


def test_the_scale_may_be_negative() -> None:
    assert run_check("REW005", reward_mean="1x5 -1x5", reward_min="-1x10", valid_rate="1x5 0x5") is None
    assert find("REW005", reward_mean="1x5 0.5x5", reward_min="-1x10", valid_rate="1x5 0x5").severity == "error"


@pytest.mark.parametrize(
    ("invalid", "fires"), [("0.3x5 0.9x5", True), ("0.31x5 0.9x5", False), ("0.3x5 0.89x5", False)]
)
def test_which_steps_count_as_valid_and_as_invalid(invalid: str, fires: bool) -> None:
    assert (run_check("REW005", reward_mean="0.6x5 0.5x5", fallback_rate=invalid) is not None) is fires


def test_valid_responses_without_reward_are_not_compared() -> None:
    assert run_check("REW005", reward_mean="0x5 0.5x5", fallback_rate="0x5 1x5") is None
