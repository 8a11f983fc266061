import pytest

from grpo_doctor.run import Sample
from grpo_doctor.testing import find, run_check

FLAT = "0.3 0.31 0.29 0.3 " * 3


def steps(distinct: list[int], words: int = 60) -> dict[int, list[Sample]]:
    """One sample per step with this many different words, repeated."""
    return {
        i: [Sample(step=i, response=" ".join(f"w{k % n}" for k in range(words)))] for i, n in enumerate(distinct, 1)
    }


def test_boundary_message_and_reward() -> None:
    assert run_check("DIV003", samples=steps([60] * 4 + [30] * 8), loss="0x12") is None
    found = find("DIV003", samples=steps([60] * 4 + [29] * 8), loss="0x12")
    assert (found.severity, found.onset_step, found.detected_step) == ("info", 9, 11)
    assert found.message == "The share of distinct word pairs fell from 100% to 49%."
    assert find("DIV003", samples=steps([60] * 4 + [29] * 8), reward_mean=FLAT).severity == "warning"


def test_too_little_text_and_another_amount_are_left_out() -> None:
    assert run_check("DIV003", samples=steps([50] * 4 + [5] * 8, words=50), loss="0x12") is None
    longer = steps([60] * 4) | {i: steps([29] * 12, words=120)[i] for i in range(5, 13)}
    assert run_check("DIV003", samples=longer, loss="0x12") is None
    assert run_check("DIV003", samples=steps([60] * 12), loss="0x12") is None


@pytest.mark.parametrize(
    ("first", "then", "distinct", "fires"),
    [
        (60, 60, 30, False),  # half of the word pairs, and not fewer
        (60, 60, 29, True),
        (50, 50, 20, True),  # the least amount of text that counts
        (49, 49, 20, False),
        (60, 90, 20, True),  # half as much text again
        (60, 91, 20, False),
        (90, 60, 20, True),
        (90, 59, 20, False),
    ],
)
def test_exactly_at_a_threshold(first: int, then: int, distinct: int, fires: bool) -> None:
    """n + 1 words have n pairs."""
    late = steps([distinct] * 12, words=then + 1)
    samples = steps([first] * 4, words=first + 1) | {step: late[step] for step in range(5, 13)}
    assert (run_check("DIV003", samples=samples, loss="0x12") is not None) is fires
