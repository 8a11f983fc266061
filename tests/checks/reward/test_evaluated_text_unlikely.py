import pytest

from grpo_doctor.testing import find, run_check

RISE = "0.5 0.52 0.55 0.6 0.7 0.8 0.9x14"


def test_a_reward_that_is_earned_by_unlikely_text() -> None:
    found = find("REW016", reward_mean=RISE, eval_perplexity="4.5 ?x4 4.4 ?x4 9 ?x4 12 ?x3 18")
    assert (found.severity, found.onset_step, found.cleared) == ("warning", 20, False)
    assert found.message == (
        "The reward rose from 0.523 to 0.9, but the perplexity of the evaluated text rose from 4.5 to 18: the reward "
        "favours unlikely text."
    )


def test_without_a_gain_it_is_reported_alone() -> None:
    found = find("REW016", eval_perplexity="4 8 9 8")
    assert found.message == "The perplexity of the evaluated text rose from 4 to 8."


@pytest.mark.parametrize(
    "perplexity",
    [
        pytest.param("4 8 9 7.99", id="one below the double"),
        pytest.param("4 8 9", id="two that lie there"),
        pytest.param("20 9 5 6 7 8", id="falls"),
    ],
)
def test_silent(perplexity: str) -> None:
    assert run_check("REW016", eval_perplexity=perplexity) is None
