import pytest

from grpo_doctor.compare import Comparison
from grpo_doctor.compare.weights import WeightChange
from grpo_doctor.run import Run
from tests.compare.pairs import answers, arm, compared, reward, run


def sides(other: str, count: int = 30) -> tuple[Run, Run]:
    one, two = (run({"learning_rate": rate}, reward_mean=reward(seed)) for seed, rate in enumerate((1e-6, 1e-5)))
    one.samples = {0: answers(1, *(str(i) for i in range(count)))}
    two.samples = {0: answers(1, *(str(i) for i in range(count - 1)), other)}
    return one, two


def said(found: Comparison) -> list[str]:
    return [f.message for f in found.findings if f.code == "STL002"]


def test_the_same_responses_under_another_setting() -> None:
    assert said(compared(*sides("29"))) == ["BASE and NEW have the same policy: 30 of 30 responses are identical."]


@pytest.mark.parametrize(("other", "count"), [("x", 30), ("18", 19)])
def test_silent_on_other_responses_and_on_few(other: str, count: int) -> None:
    assert said(compared(*sides(other, count))) == []


def test_silent_where_no_setting_differs() -> None:
    one, two = sides("29")
    two.settings = dict(one.settings)
    assert said(compared(one, two)) == []


@pytest.mark.parametrize(("change", "count"), [(9e-5, 1), (1e-4, 0)])
def test_weights_that_did_not_move(change: float, count: int) -> None:
    from grpo_doctor.diagnosis.catalogue import load

    base = arm(run(reward_mean=reward(0)))
    found = Comparison(base=base, new=base, weights=[WeightChange(name=n, change=change, norm=1.0) for n in "ab"])
    across = load().checks["STL002"].across
    assert across is not None
    told = across(found)
    assert bool(told.when) is bool(count)
    if count:
        assert told.message.format(**told.evidence) == (
            "BASE and NEW have the same policy: none of the 2 tensors differs by more than 9e-05 of its norm."
        )
