"""Stated causes are possible, and advice fits the run: over a sample of real logs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from grpo_doctor.diagnosis.check import Finding
from grpo_doctor.diagnosis.examine import diagnose
from grpo_doctor.diagnosis.remedies import shared_remedies
from grpo_doctor.diagnosis.remedy_gate import BACK, CONSTANT, contradicting, placed, senseless, unfounded
from grpo_doctor.diagnosis.verdict import same_in_other_words
from grpo_doctor.run import run_of
from grpo_doctor.testing import make_run, records_of

NOTHING: dict[str, np.ndarray] = {}
"""The columns of a log without any metric."""


def finding(code: str, onset: int = 1, **evidence: Any) -> Finding:
    return Finding(
        code=code,
        name=code,
        kind="outcome",
        severity="error",
        confidence="medium",
        onset_step=onset,
        detected_step=onset,
        last_step=100,
        message=f"{code} it is.",
        evidence=evidence,
        columns=["reward_mean"],
    )


def test_an_outcome_that_is_read_off_the_same_series_is_not_a_cause() -> None:
    assert same_in_other_words(finding("REW001"), finding("STL001"))
    other = finding("LEN001")
    other.columns = ["response_length_mean"]
    assert not same_in_other_words(other, finding("STL001"))
    tied = finding("ADV003")
    tied.columns = ["dead_share"]
    assert same_in_other_words(tied, finding("STL001", constant=True))
    assert not same_in_other_words(tied, finding("STL001", constant=False))


@pytest.mark.parametrize(
    ("settings", "remedy", "withheld"),
    [
        ({"entropy_coef": 0.0}, "drop-entropy-bonus", True),
        ({"entropy_coef": 0.01}, "drop-entropy-bonus", False),
        ({"kl_coef": 0}, "lower-kl-coefficient", True),
        ({"temperature": 1.0}, "temperature-one", True),
        ({"temperature": 0.7}, "temperature-one", False),
        ({"num_iterations": 1}, "clip-higher", True),
        ({"group_size": 8}, "raise-group-size", True),
        ({}, "raise-learning-rate", True),
    ],
)
def test_a_remedy_that_a_setting_makes_senseless_is_withheld(
    settings: dict[str, Any], remedy: str, withheld: bool
) -> None:
    assert (remedy in dict(senseless(settings, [finding("REW009", 50)], 1, NOTHING.get))) is withheld


@pytest.mark.parametrize(("most", "withheld"), [(0.0, True), (0.1, False), (float("nan"), False)])
def test_groups_are_not_filtered_where_all_differ(most: float, withheld: bool) -> None:
    told = dict(senseless({}, [finding("GRD008", most_dead=most)], 1, NOTHING.get))
    assert ("drop-zero-variance-groups" in told) is withheld


@pytest.mark.parametrize(("onset", "withheld"), [(1, True), (2, False)])
def test_no_checkpoint_is_finite_if_the_first_row_is_not(onset: int, withheld: bool) -> None:
    told = dict(senseless({}, [finding("GRD001", onset)], 1, NOTHING.get))
    assert ("stop-on-non-finite" in told) is withheld


@pytest.mark.parametrize(("first", "onset", "withheld"), [(1, 1, False), (1, 2, True), (2, 2, True)])
def test_weights_are_checked_only_if_the_problem_began_with_the_run(first: int, onset: int, withheld: bool) -> None:
    told = dict(senseless({}, [finding("ENT013", onset)], first, NOTHING.get))
    assert ("check-the-weights" in told) is withheld


def test_a_constant_reward_puts_the_reward_function_first() -> None:
    against = dict(senseless({}, [finding("STL001", throughout=True)], 1, NOTHING.get))
    assert set(CONSTANT) <= against.keys()
    assert BACK in against  # it was like this from its first step


def test_a_reward_that_became_constant_later_had_a_reward_function_that_worked() -> None:
    assert (
        not set(CONSTANT)
        & dict(senseless({}, [finding("REW001", 137, constant=True, throughout=False)], 1, NOTHING.get)).keys()
    )


@pytest.mark.parametrize(
    ("columns", "remedy", "withheld"),
    [
        ({"kl": [3e-3] * 5}, "raise-learning-rate", False),
        ({"kl": [3.1e-3] * 5}, "raise-learning-rate", True),
        ({"cut_share": [0.1] * 5}, "raise-response-limit", True),
        ({"cut_share": [0.9] * 20 + [0.12] * 5}, "raise-response-limit", False),
        ({"cut_share": [np.nan] * 5}, "raise-response-limit", False),
    ],
)
def test_a_remedy_that_the_last_rows_contradict_is_withheld(
    columns: dict[str, list[float]], remedy: str, withheld: bool
) -> None:
    known = {name: np.array(values) for name, values in columns.items()}
    assert (remedy in dict(senseless({}, [finding("STL001")], 1, known.get))) is withheld


def test_truncation_with_a_task_reward_that_was_never_above_0_asks_for_both() -> None:
    run = make_run(
        reward_mean=[0.9, 1.0, 0.8] * 5,
        truncated_rate="0.6x15",
        reward_components=[{"format": 0.9, "proof": 0.0}] * 15,
    )
    found = diagnose(run).finding("LEN003")
    assert found is not None
    assert [one.id for one in found.remedies][:2] == ["raise-response-limit", "check-the-reward"]
    assert not found.withheld


@pytest.mark.parametrize(("evidence", "withheld"), [("solved", True), ("graded", True), ("constant", False)])
def test_a_reward_function_that_works_is_not_questioned(evidence: str, withheld: bool) -> None:
    told = dict(senseless({}, [finding("REW001", **{evidence: True})], 1, NOTHING.get))
    assert ("check-the-reward" in told) is withheld
    assert "check-the-reward" not in dict(senseless({}, [finding("STL001", graded=True)], 1, NOTHING.get, idle=True))


def test_a_rollback_names_the_cause_and_is_withheld_without_one() -> None:
    fell = finding("REW009", 137)
    assert unfounded(fell)
    fell.explained_by = ["ENT003"]
    assert not unfounded(fell)
    assert placed(shared_remedies()[BACK], fell).title == (
        "Fix the cause (ENT003), roll back to the checkpoint before step 137, and reset the optimizer state"
    )


def test_a_consequence_does_not_rule_out_the_remedy_of_its_cause() -> None:
    loss = [0.1] * 19 + [float("nan")]
    run = make_run({"learning_rate": 5e-3}, loss=loss, kl=[0.0, 4.0] + [13.0] * 18, reward_mean=[0.2, 0.3] * 10)
    found = diagnose(run)
    assert (found.outcome, found.cause) == ("GRD001", "CFG002")
    rate, nan = found.finding("CFG002"), found.finding("GRD001")
    assert rate is not None
    assert nan is not None
    assert [remedy.id for remedy in rate.remedies] == ["lower-learning-rate"]
    assert "lower-learning-rate" not in {remedy.id for remedy in nan.remedies}


def test_a_cause_is_not_reported_twice() -> None:
    flat = make_run({}, reward_mean=[0.5, 0.502] * 50, reward_max="1x100", truncated_rate="0.9x100")
    found = diagnose(flat)
    assert (found.outcome, found.cause) == ("STL001", "LEN003")
    assert found.headline.count("truncated") == 1


COLLAPSE: dict[str, Any] = {"reward_mean": "0.3->0.5x55 0.5x5 0.02x40", "entropy_mean": "0.5->0.4x54 0.02x46"}


def test_what_several_findings_ask_for_comes_first() -> None:
    alone = diagnose(make_run({"entropy_coef": 0.01}, **COLLAPSE)).findings[0]
    assert (alone.code, alone.role, alone.remedies[0].id) == ("ENT001", "cause", "prove-entropy-sign")
    both = diagnose(make_run(**COLLAPSE, kl="0.01x54 3x46"))
    assert (both.cause, both.findings[0].remedies[0].id) == ("ENT001", "lower-learning-rate")


def test_remedies_of_an_entropy_bonus_come_last_if_no_coefficient_is_declared() -> None:
    ids = [remedy.id for remedy in diagnose(make_run(**COLLAPSE)).findings[0].remedies]
    assert ids[0] != "prove-entropy-sign"
    assert ids[-1] == "prove-entropy-sign"


def test_an_alternative_whose_check_passed_is_left_out() -> None:
    low_before = "entropy was lost before RL, in the supervised stage, the template or the sampling"
    assert low_before not in [r.name for r in diagnose(make_run(**COLLAPSE)).findings[0].rivals]
    (low,) = [
        f for f in diagnose(make_run(entropy_mean="0.04x30", reward_mean="0.3x30")).findings if f.code == "ENT001"
    ]
    assert low_before in [r.name for r in low.rivals]
    late = run_of(records_of(300, **COLLAPSE))  # nothing is known of the first rows
    assert low_before in [r.name for r in diagnose(late).findings[0].rivals]


@pytest.mark.parametrize(("rows", "left_out"), [(49, False), (50, True)])
def test_a_pass_on_a_few_rows_rules_nothing_out(rows: int, left_out: bool) -> None:
    exploded: dict[str, Any] = {"entropy_mean": "0.5x60 5x40", "reward_mean": "0.3->0.5x60 0.02x40"}
    found = diagnose(make_run(**exploded, rollout_mismatch_kl=f"1e-4x{rows} ?x{100 - rows}"))
    (entropy,) = [f for f in found.findings if f.code == "ENT003"]
    assert ("rollout engine and trainer disagree" not in [r.name for r in entropy.rivals]) is left_out


def test_the_remedy_of_a_constant_reward_comes_before_checking_the_reward() -> None:
    told = diagnose(make_run(reward_mean="0x24", reward_std="0x24", truncated_rate="1x24"))
    assert (told.outcome, told.cause) == ("REW001", "LEN003")
    assert [remedy.id for remedy in told.findings[0].remedies][:2] == ["raise-response-limit", "check-the-reward"]
    assert "check-the-reward" not in {w.id for f in told.findings for w in f.withheld}


def test_the_direction_of_the_learning_rate_follows_the_finding() -> None:
    low = dict(senseless({}, [finding("CFG002", too_low=True)], 0, NOTHING.get))
    assert "lower-learning-rate" in low
    assert "raise-learning-rate" not in low


def test_gives_only_the_first_of_two_opposite_remedies() -> None:
    offered = contradicting({"lower-learning-rate": "CFG002"})
    assert offered == {"raise-learning-rate": "CFG002 recommends the opposite"}
    assert contradicting({"raise-learning-rate": "CFG054"}) == {"lower-learning-rate": "CFG054 recommends the opposite"}
    assert contradicting({"roll-back": "REW009"}) == {}


def test_a_cause_from_the_series_of_the_outcome_is_reported_alone() -> None:
    found = diagnose(make_run(entropy_mean="0.00008x12", reward_mean=[0.3, 0.5] * 6))
    assert (found.outcome, found.cause) == ("ENT001", "ENT012")
    assert found.headline.startswith("Entropy was 8e-05 nats on the first row, before any update.")
    assert "ause (" not in found.headline
