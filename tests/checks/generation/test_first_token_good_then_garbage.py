import pytest

from grpo_doctor.run import Sample
from grpo_doctor.testing import find, run_check


def rollouts(invalid: list[str]) -> dict[int, list[Sample]]:
    valid = [Sample(step=1, response="Custom -> Review -> done", valid=True) for _ in range(4)]
    return {1: valid, 2: [Sample(step=2, response=text, valid=False) for text in invalid]}


NOISE, OTHER = "Customizing the 11. 1. 1. 111. 1. 1.", "I cannot answer that question."


def test_ten_invalid_responses_of_which_six_begin_well() -> None:
    assert run_check("GEN003", samples=rollouts([NOISE] * 9), loss="0.1x3") is None
    assert run_check("GEN003", samples=rollouts([NOISE] * 5 + [OTHER] * 5), loss="0.1x3") is None
    found = find("GEN003", samples=rollouts([NOISE] * 6 + [OTHER] * 4), loss="0.1x3")
    assert (found.severity, found.onset_step) == ("error", 2)
    assert found.message == "60% of 10 invalid responses begin like a valid one and go on as noise."


def test_repetition_is_noise_too_and_a_wrong_ending_is_not() -> None:
    assert (
        find("GEN003", samples=rollouts(["Custom ab cd ab cd ab cd ab cd"] * 10), loss="0.1x3").evidence["marked"] == 1
    )
    assert run_check("GEN003", samples=rollouts(["Custom -> Programmer -> Review ? done"] * 10), loss="0.1x3") is None


@pytest.mark.parametrize(
    ("text", "noise"),
    [
        ("Custom ab ab ab ab ab", True),
        ("Custom ab ab ab ab", False),
        ("Custom ab cd ab cd ab", False),
        ("Custom1.1", True),
        ("Custom1.", False),
        ("Custom1a2b", False),
        ("Custom1a2b.", True),
    ],
)
def test_what_is_noise_at_its_thresholds(text: str, noise: bool) -> None:
    assert (run_check("GEN003", samples=rollouts([text] * 10), loss="0.1x3") is not None) is noise
