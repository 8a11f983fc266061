import pytest

from grpo_doctor.testing import find, run_check

RISE = " ".join(str(round(0.1 + 0.02 * row, 2)) for row in range(30))


def test_message() -> None:
    found = find("REC004", eval_score="0.412 ?x8 0.412 ?x8 0.412 ?x8 0.412 ?x2", reward_mean=RISE)
    assert (found.severity, found.detected_step) == ("warning", 28)
    assert found.message == "The held-out score is identical in all 4 evaluations while the reward rises."


@pytest.mark.parametrize(
    ("scores", "reward"),
    [
        ("0.412 ?x8 0.412 ?x8 0.412 ?x11", RISE),
        ("0.412 ?x8 0.412 ?x8 0.413 ?x8 0.413 ?x2", RISE),
        ("0 ?x8 0 ?x8 0 ?x8 0 ?x2", RISE),
        ("1 ?x8 1 ?x8 1 ?x8 1 ?x2", RISE),
        ("0.412 ?x8 0.412 ?x8 0.412 ?x8 0.412 ?x2", "0.3x30"),
    ],
)
def test_silent(scores: str, reward: str) -> None:
    assert run_check("REC004", eval_score=scores, reward_mean=reward) is None
