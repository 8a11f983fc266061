import pytest

from grpo_doctor.testing import find, run_check

RISING = [0.2 + 0.02 * i for i in range(30)]


def parts(**levels: float) -> list[dict[str, float]]:
    return [{name: level * reward for name, level in levels.items()} for reward in RISING]


def test_a_component_that_stays_at_nothing_while_the_reward_rises() -> None:
    found = find("REW011", reward_mean=RISING, reward_components=parts(compiles=1.0, f=0.01))
    assert (found.severity, found.detected_step) == ("warning", 20)
    assert (
        found.message
        == "The reward rose to 0.72, but a component of it has never been more than 0.0078 above its floor."
    )


@pytest.mark.parametrize("share", [0.09, 0.11])
def test_a_tenth_of_the_reward_is_something(share: float) -> None:
    level = share * 0.72 / RISING[-1]
    found = run_check("REW011", reward_mean=RISING, reward_components=parts(compiles=1.0, f=level))
    assert (found is not None) == (share < 0.1)


def test_a_wrong_answer_that_costs_something_has_not_paid_either() -> None:
    stuck = [{"language": reward + 2, "check_answer": -2.0} for reward in RISING]
    found = find("REW011", reward_mean=RISING, reward_components=stuck)
    assert found.message == "The reward rose to 0.72, but a component of it has never been more than 0 above its floor."
    rising = [{"language": 1.0, "check_answer": reward - 1} for reward in RISING]
    assert run_check("REW011", reward_mean=RISING, reward_components=rising) is None


@pytest.mark.parametrize("name", ["soft_format_reward", "repetition_penalty", "int_reward_func", "length"])
def test_form_and_penalties_are_passed_over(name: str) -> None:
    assert run_check("REW011", reward_mean=RISING, reward_components=parts(correctness=1.0, **{name: 0.0})) is None


def test_a_reward_that_has_not_risen_says_nothing() -> None:
    assert run_check("REW011", reward_mean="0.3x30", reward_components=[{"a": 0.3, "f": 0.0}] * 30) is None
