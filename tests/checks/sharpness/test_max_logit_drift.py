import pytest

from grpo_doctor.testing import run_check


def climb(to: float) -> str:
    return "20x5 " + " ".join(str(round(20 + (to - 20) * i / 20, 3)) for i in range(1, 21))


def test_boundary_and_message() -> None:
    assert run_check("SHP002", logit_max=climb(28.4)) is None
    found = run_check("SHP002", logit_max=climb(29.0))
    assert found is not None
    assert (found.onset_step, found.detected_step) == (23, 25)
    assert found.message == "The largest logit grew from 20 to 29."


def test_a_level_without_drift_and_a_healthy_drift_are_not_flagged() -> None:
    assert run_check("SHP002", logit_max="27x30") is None
    assert run_check("SHP002", logit_max=climb(22.3)) is None


@pytest.mark.parametrize(
    ("thresholds", "last", "fires"),
    [
        ({}, "28x4", False),
        ({}, "28.1x4", True),
        ({"tau": 1}, "30 31 32 33", False),
        ({"tau": 0.9}, "30 31 32 33", True),
    ],
)
def test_exactly_at_a_threshold(thresholds: dict[str, float], last: str, fires: bool) -> None:
    found = run_check("SHP002", thresholds=thresholds, logit_max=f"20x5 20.5 21..27 {last}")
    assert (found is not None) is fires
