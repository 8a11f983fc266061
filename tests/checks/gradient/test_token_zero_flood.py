import pytest

from grpo_doctor import Finding
from grpo_doctor.run import Sample
from grpo_doctor.testing import run_check


def run(*texts: str, **thresholds: float) -> Finding | None:
    samples = {2: [Sample(step=2, response=text) for text in texts]}
    return run_check("GRD005", samples=samples, thresholds=thresholds, reward_mean="1 0 0")


def test_message() -> None:
    found = run("!!!!!!!!!!!!", "!! !!!!!! !!!!", "!" * 50, "Custom -> done")
    assert found is not None
    assert (found.severity, found.onset_step) == ("critical", 2)
    assert found.message == "75% of the saved responses repeat a single token."


@pytest.mark.parametrize(
    ("texts", "fires"),
    [
        (["!" * 20] * 2 + ["fine"] * 2, False),
        (["!" * 20] * 3 + ["fine"] * 2, True),
        (["!" * 20] * 3, False),  # too few to judge
        (["!" * 9] * 4, False),
        (["!" * 9 + "a"] * 4, False),  # 90%, not above
        (["!" * 10 + "a"] * 4, True),
        (["the " * 10] * 4, True),
        (["the cat sat on the mat and the dog lay by the door"] * 4, False),
        ([""] * 4, False),
    ],
)
def test_boundary(texts: list[str], fires: bool) -> None:
    assert (run(*texts) is not None) is fires


@pytest.mark.parametrize(
    ("text", "fires"), [("!" * 9 + "aaa", False), ("!" * 10 + "aa", True), ("!" * 9 + "abc", False)]
)
def test_the_one_token_must_make_up_more_than_its_share(text: str, fires: bool) -> None:
    assert (run(*[text] * 4, flooded_from=0.75) is not None) is fires
