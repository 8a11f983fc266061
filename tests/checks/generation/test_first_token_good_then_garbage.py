from collections.abc import Sequence

import pytest

from grpo_doctor.run import Sample
from grpo_doctor.testing import find, run_check


def rollouts(invalid: list[str], valid: Sequence[str] = ("Custom -> Review -> done",) * 4) -> dict[int, list[Sample]]:
    both = (valid, True), (invalid, False)
    return {i: [Sample(step=i, response=r, valid=ok) for r in texts] for i, (texts, ok) in enumerate(both, 1)}


NOISE, OTHER = "Customizing the 11. 1. 1. 111. 1. 1.", "I cannot answer that question."


def test_ten_invalid_responses_of_which_six_begin_well() -> None:
    assert run_check("GEN003", samples=rollouts([NOISE] * 9), loss="0.1x3") is None
    assert run_check("GEN003", samples=rollouts([NOISE] * 5 + [OTHER] * 5), loss="0.1x3") is None
    found = find("GEN003", samples=rollouts([NOISE] * 6 + [OTHER] * 4), loss="0.1x3")
    assert (found.severity, found.onset_step) == ("error", 2)
    assert found.message == "60% of 10 invalid responses start like a valid response and turn into garbage."


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
def test_thresholds_of_garbage_text(text: str, noise: bool) -> None:
    assert (run_check("GEN003", samples=rollouts([text] * 10), loss="0.1x3") is not None) is noise


@pytest.mark.parametrize(
    ("valid", "usual"),
    [
        (["Yes -> done"] * 2, True),
        (["Yes -> done"], False),
        (["Ye -> done"] * 2, False),  # two letters begin too much
        ([*(f"w{i}" for i in range(998)), "Yes", "Yes"], True),
        ([*(f"w{i}" for i in range(999)), "Yes", "Yes"], False),  # a thousand kinds are enough to know
    ],
)
def test_how_valid_responses_usually_begin(valid: list[str], usual: bool) -> None:
    noise = valid[-1].split()[0] + " 11. 1. 1. 111. 1. 1."
    assert (run_check("GEN003", samples=rollouts([noise] * 10, valid), loss="0.1x3") is not None) is usual
