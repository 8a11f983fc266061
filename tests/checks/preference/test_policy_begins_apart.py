import pytest

from grpo_doctor import diagnose
from grpo_doctor.run import run_of
from grpo_doctor.testing import find, records_of, run_check

LOGP = "-300 -310 -290"


def test_rewards_that_do_not_begin_at_0() -> None:
    finding = find("PRF004", chosen_reward="7 6 8", rejected_reward="9.25 7 6", chosen_logp=LOGP)
    assert (finding.severity, finding.kind, finding.onset_step) == ("warning", "risk", 1)
    assert finding.message == (
        "The implicit reward is 9.25 on the first row; it should be 0, because the policy starts as the reference "
        "model."
    )


def test_one_row_is_enough() -> None:
    assert find("PRF004", chosen_reward="7", rejected_reward="6", chosen_logp="-300").severity == "warning"


@pytest.mark.parametrize(
    ("chosen", "rejected", "epoch", "fires"),
    [
        ("5 6 7", "1 1 1", "?x3", True),
        ("4.99 6 7", "1 1 1", "?x3", False),
        ("-5 -6 -7", "-9 -9 -9", "?x3", False),  # as of trainers without a reference
        ("0 6 7", "0 -6 -7", "?x3", False),
        ("5 6 7", "1 1 1", "0.1 0.2 0.3", True),
        ("5 6 7", "1 1 1", "0.11 0.2 0.3", False),
    ],
)
def test_exactly_at_a_threshold(chosen: str, rejected: str, epoch: str, fires: bool) -> None:
    found = run_check("PRF004", chosen_reward=chosen, rejected_reward=rejected, chosen_logp=LOGP, epoch=epoch)
    assert (found is not None) == fires


def test_a_log_that_begins_later() -> None:
    run = run_of(records_of(2, chosen_reward="7 6 8", rejected_reward="1 1 1", chosen_logp=LOGP))
    run.run_type = "preference"
    assert diagnose(run).finding("PRF004") is None


def test_the_scores_of_a_reward_model_have_no_log_probabilities() -> None:
    assert run_check("PRF004", chosen_reward="7 6 8", rejected_reward="1 1 1") is None
