import pytest

from grpo_doctor.testing import find, run_check


def test_no_success_in_forty_values() -> None:
    found = find("STL008", success_rate="0x40")
    assert (found.severity, found.onset_step, found.detected_step) == ("warning", 1, 40)
    assert found.message == "No response has been correct: the success rate is 0 on all 40 rows."
    assert run_check("STL008", success_rate="0x39") is None


def test_one_success_ends_it() -> None:
    assert find("STL008", success_rate="0x40 0.125x5").cleared
    assert find("STL008", success_rate="0x48 ? ?").cleared is False


def scores(last: str) -> str:
    return f"0.016 ?x11 0 ? {last}"


def test_almost_no_success_and_none_on_held_out_prompts() -> None:
    found = find("STL008", success_rate="0x12 0.125 0x2", eval_score=scores("0.05"))
    assert found.message == (
        "Almost no response is correct: the highest success rate of 15 rows is 0.12, and the best held-out score is "
        "0.05."
    )
    assert (found.detected_step, found.cleared) == (15, False)


@pytest.mark.parametrize(
    ("rates", "evaluated"),
    [
        pytest.param("0x12 0.125 0x2", scores("0.051"), id="above the floor"),
        pytest.param("0x12 0.125 0x2", "? 0.016 ?x4 0 ?x8", id="two scores"),
        pytest.param("0x8 0.125x2 0 0.125 0x3", scores("0"), id="three of fifteen"),
        pytest.param("0x12 0.125 0x2", "-0.2 ?x5 0 ?x7 0", id="another scale"),
    ],
)
def test_silent(rates: str, evaluated: str) -> None:
    assert run_check("STL008", success_rate=rates, eval_score=evaluated) is None


def test_a_success_rate_alone_near_zero_needs_twelve_values() -> None:
    found = find("STL008", success_rate="0.02 0.05 0x10")
    assert (found.severity, found.onset_step, found.detected_step) == ("warning", 1, 12)
    assert found.message == "Almost no response is correct: the highest success rate of 12 rows is 0.05."
    assert run_check("STL008", success_rate="0.02 0.05 0x9") is None
    assert run_check("STL008", success_rate="0.02 0.051 0x10") is None


def test_not_before_twelve_values() -> None:
    held_out = "0 0 0 ?x9"
    assert find("STL008", success_rate="0x12", eval_score=held_out).detected_step == 12
    assert run_check("STL008", success_rate="0x11", eval_score="0 0 0 ?x8") is None


def test_a_reward_that_is_never_earned_is_reported() -> None:
    assert run_check("STL008", success_rate="0x50", reward_mean="0x50") is None
    assert find("STL008", success_rate="0x50", reward_mean="-6.5 -6.6 0.1x48").code == "STL008"


@pytest.mark.parametrize(
    ("rows", "rewards", "fires"), [(7, "-0.5 -0.4x6", False), (8, "-0.5 -0.4x7", True), (8, "-0.5 -0.4x6 ?", False)]
)
def test_eight_values_are_enough_if_the_reward_does_not_rise(rows: int, rewards: str, fires: bool) -> None:
    assert (run_check("STL008", success_rate=f"0x{rows}", reward_mean=rewards) is not None) is fires


def test_a_rising_reward_needs_forty_values() -> None:
    rising = [0.01 * row**2 for row in range(30)]
    assert find("STL008", success_rate="0x30", reward_mean=rising).cleared
