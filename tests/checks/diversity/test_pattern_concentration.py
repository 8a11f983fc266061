import pytest

from grpo_doctor.run import Sample
from grpo_doctor.testing import find, run_check


def test_one_response_for_everything_while_the_reward_stays() -> None:
    assert run_check("DIV002", reward_mean="0.3x30", top_pattern_share="0.5x30") is None
    found = find("DIV002", reward_mean="0.3x30", top_pattern_share="0.51x30")
    assert found.severity == "warning"
    assert found.message == "A single response makes up 51% of the valid output, and the reward stays at 0.3."
    assert find("DIV002", reward_mean="0.3x30", top_pattern_share="0.81x30").severity == "error"


def test_a_policy_that_found_the_best_answer_is_not_flagged() -> None:
    assert run_check("DIV002", reward_mean="0.3x10 0.5x10 0.9x20", top_pattern_share="0.1x10 0.6x10 0.9x20") is None


def test_counted_from_samples_where_nothing_is_recorded() -> None:
    texts = {s: [Sample(step=s, response=f"r{i % 2 * (i + s)}", valid=True) for i in range(4)] for s in range(1, 31)}
    assert run_check("DIV002", reward_mean="0.3x30", samples=texts) is None
    alike = {s: [Sample(step=s, response="same", valid=True)] * 4 for s in range(1, 31)}
    assert find("DIV002", reward_mean="0.3x30", samples=alike).severity == "error"


@pytest.mark.parametrize(
    ("thresholds", "reward", "share"),
    [
        ({"nearly_all": 0.75}, "0.3x30", "0.75x30"),
        ({"gain": 0.5}, "0.5x5 0.75x25", "0x15 0.75x15"),  # a reward that has gained exactly so much is stuck
    ],
)
def test_exactly_at_a_threshold(thresholds: dict[str, float], reward: str, share: str) -> None:
    assert find("DIV002", thresholds=thresholds, reward_mean=reward, top_pattern_share=share).severity == "warning"


@pytest.mark.parametrize(("a_step", "onset"), [(3, 19), (2, 24)])
def test_a_share_is_known_from_thirty_valid_responses_on(a_step: int, onset: int) -> None:
    """This is row 10 with three samples per step, and row 15 with two; the ten rows of the mean follow."""
    alike = {s: [Sample(step=s, response="same", valid=True)] * a_step for s in range(1, 31)}
    assert find("DIV002", reward_mean="0.3x30", samples=alike).onset_step == onset
