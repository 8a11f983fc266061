from grpo_doctor.run import Sample
from grpo_doctor.testing import find, run_check


def test_one_response_for_everything_while_the_reward_stays() -> None:
    assert run_check("DIV002", reward_mean="0.3x30", top_pattern_share="0.5x30") is None
    found = find("DIV002", reward_mean="0.3x30", top_pattern_share="0.51x30")
    assert found.severity == "warning"
    assert found.message == "One response makes up 51% of the valid output while the reward stays at 0.3."
    assert find("DIV002", reward_mean="0.3x30", top_pattern_share="0.81x30").severity == "error"


def test_a_policy_that_found_the_best_answer_is_left_in_peace() -> None:
    assert run_check("DIV002", reward_mean="0.3x10 0.5x10 0.9x20", top_pattern_share="0.1x10 0.6x10 0.9x20") is None


def test_counted_from_samples_where_nothing_is_recorded() -> None:
    texts = {s: [Sample(step=s, response=f"r{i % 2 * (i + s)}", valid=True) for i in range(4)] for s in range(1, 31)}
    assert run_check("DIV002", reward_mean="0.3x30", samples=texts) is None
    alike = {s: [Sample(step=s, response="same", valid=True)] * 4 for s in range(1, 31)}
    assert find("DIV002", reward_mean="0.3x30", samples=alike).severity == "error"
