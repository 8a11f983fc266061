import pytest

from grpo_doctor.testing import find, run_check

FALLING = "0.52 0.56 0.6 0.55 0.5 0.45 0.4 0.35 0.3 0.25"


def test_few_scores_that_go_down_by_rank() -> None:
    found = find("REW015", eval_score=FALLING)
    assert found.severity == "error"
    assert found.message == "The held-out score fell from 0.57 to 0.3 at step 7."
    assert (found.onset_step, found.cleared) == (7, False)


def test_not_before_seven_have_gone_down() -> None:
    assert run_check("REW015", eval_score="0.52 0.56 0.6 0.55 0.5 0.45 0.4 0.35 0.3") is None


@pytest.mark.parametrize(("now", "severity"), [(0.1, "error"), (0.41, "error"), (0.48, "warning"), (0.54, None)])
def test_how_bad_a_fall_is(now: float, severity: str | None) -> None:
    found = run_check("REW015", eval_score=f"0.1 0.2 0.3 0.4 0.5 0.6x30 {now}x30")
    assert (found.severity if found else None) == severity


@pytest.mark.parametrize(
    "scores",
    [
        pytest.param("0.1 0.2 0.3 0.4 0.5 0.6x20", id="rises"),
        pytest.param("0.5 0.6 0.3 0.55 0.6 0.5 0.58 0.52 0.57", id="restless"),
        pytest.param("0.6 0.59 0.58 0.57 0.56 0.55 0.54", id="few that lose little"),
    ],
)
def test_silent(scores: str) -> None:
    assert run_check("REW015", eval_score=scores) is None


def slipping(end: float) -> str:
    """Scores that scatter by 0.005 around 0.9, and around this value at the end."""
    level = [0.9] * 12 + [end] * 12
    return " ".join(f"{score + 0.005 * (-1) ** n:.4f}" for n, score in enumerate(level))


def test_less_than_a_fall_that_its_noise_does_not_explain() -> None:
    found = find("REW015", eval_score=slipping(0.87))
    assert (found.severity, found.detected_step, found.cleared) == ("warning", 14, False)
    assert found.message == "The held-out score is below its starting level: 0.9 at the start, 0.87 now."


def test_a_fall_within_noise_is_not_a_loss() -> None:
    assert find("REW015", eval_score=slipping(0.885)).evidence["shown"] < 0.015
    assert run_check("REW015", eval_score=slipping(0.895)) is None
