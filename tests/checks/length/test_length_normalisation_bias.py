import pytest

from grpo_doctor.run import Sample
from grpo_doctor.testing import find, run_check


def steps(wrong: list[int], right: int = 50) -> dict[int, list[Sample]]:
    return {
        i: [Sample(step=i, response="w" * n, reward=0.0), Sample(step=i, response="r" * right, reward=1.0)]
        for i, n in enumerate(wrong, 1)
    }


GROWING = [60 + 2 * i for i in range(14)]


def test_wrong_answers_that_grow_fire_as_info_and_warn_under_a_sequence_mean() -> None:
    assert run_check("LEN007", samples=steps([60 + i for i in range(14)]), loss="0x14") is None
    found = run_check("LEN007", samples=steps(GROWING), loss="0x14")
    assert found is not None
    assert (found.severity, found.onset_step, found.detected_step) == ("info", 12, 14)
    assert found.message == "Wrong answers grew from 60 to 86 characters, while correct answers have 50 characters."
    declared = run_check("LEN007", {"loss_type": "grpo"}, samples=steps(GROWING), loss="0x14")
    assert declared is not None
    assert declared.severity == "warning"
    dapo = run_check("LEN007", {"loss_type": "dapo"}, samples=steps(GROWING), loss="0x14")
    assert dapo is not None
    assert dapo.severity == "info"


def test_wrong_answers_of_steady_length_and_equal_rewards_are_not_flagged() -> None:
    assert run_check("LEN007", samples=steps([60] * 14), loss="0x14") is None
    ties = {i: [Sample(step=i, response="x" * i, reward=1.0)] for i in range(1, 15)}
    assert run_check("LEN007", samples=ties, loss="0x14") is None


@pytest.mark.parametrize(
    ("thresholds", "last", "right"),
    [({"tau": 1}, 88, 50), ({}, 75, 50), ({}, 80, 80)],
    ids=["the trend", "a quarter longer than at first", "as long as the right ones"],
)
def test_exactly_at_a_threshold(thresholds: dict[str, float], last: int, right: int) -> None:
    wrong = [*range(60, 71), last - 2 * bool(thresholds), last - bool(thresholds), last]
    assert run_check("LEN007", thresholds=thresholds, samples=steps(wrong, right), loss="0x14") is None


def test_an_answer_of_just_the_mean_reward_is_neither_wrong_nor_right() -> None:
    samples = {i: [*both, Sample(step=i, response="m" * 1000, reward=0.5)] for i, both in steps(GROWING).items()}
    found = find("LEN007", samples=samples, loss="0x14")
    assert (found.evidence["wrong"], found.evidence["right"]) == (86, 50)
