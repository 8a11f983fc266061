"""Which finding explains which, and what the first sentence states."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grpo_doctor.diagnosis.catalogue import load
from grpo_doctor.diagnosis.check import Finding, Severity
from grpo_doctor.diagnosis.examine import diagnose
from grpo_doctor.diagnosis.live import LiveDoctor
from grpo_doctor.diagnosis.success import shown, together
from grpo_doctor.diagnosis.verdict import Coverage, Diagnosis, diagnosis_of, learns
from grpo_doctor.readers import read
from grpo_doctor.record import StepRecord
from grpo_doctor.run import RunType, run_of
from grpo_doctor.series.trajectory import Trajectory
from grpo_doctor.series.trend import Outcome
from grpo_doctor.testing import make_run, series

COVERAGE = Coverage(ran=9, fired=0, passed=9, skipped=[], unread_keys=[])


def found(code: str, severity: str, onset: int, *, last: int = 100, confidence: str = "medium") -> Finding:
    return Finding(
        code=code,
        name=load().checks[code].name,
        kind=load().checks[code].kind,
        severity=severity,
        confidence=confidence,
        onset_step=onset,
        detected_step=onset + 2,
        last_step=last,
        cleared=last < 100,
        message=f"{code} it is.",
    )


def trajectory(rewards: str) -> dict[str, Trajectory]:
    out = Trajectory()
    for step, reward in enumerate(series(rewards), 1):
        out.push(reward or 0.0, step)
    return {"reward_mean": out}


LEARNT = trajectory("0.1x20 0.5x80")


def diagnosed(*findings: Finding, success: dict[str, Trajectory] = LEARNT) -> Diagnosis:
    run = make_run(reward_mean="0.5x100")
    return diagnosis_of(run, load(), list(findings), COVERAGE, success)


def roles(diagnosis: Diagnosis) -> dict[str, str]:
    return {f.code: f.role for f in diagnosis.findings}


def test_a_collapsed_length_explains_a_collapsed_reward() -> None:
    diagnosis = diagnosed(found("REW009", "critical", 48), found("LEN001", "critical", 50))
    assert diagnosis.cause == "LEN001"
    assert diagnosis.findings[1].explained_by == ["LEN001"]


def test_truncation_is_an_outcome_regardless_of_the_reward() -> None:
    rewards = list(np.linspace(-0.7, -0.55, 60) + np.random.default_rng(0).normal(0, 0.005, 60))
    cut = diagnose(make_run(reward_mean=rewards, reward_std="0.1x60", truncated_rate="1x60"))
    assert (cut.verdict, cut.outcome, cut.learns) == ("suspect", "LEN003", True)
    assert cut.headline.startswith("100% of the responses are truncated at the length limit.")
    assert cut.headline.endswith("The policy improved: the reward rose from -0.696 to -0.566.")
    small = diagnose(make_run(reward_mean=rewards, reward_std="0.5x60", truncated_rate="1x60"))
    assert (small.verdict, small.outcome) == ("failing", "LEN003")
    for share, verdict in ((0.3, "healthy"), (0.6, "healthy")):
        some = diagnose(make_run(reward_mean=rewards, truncated_rate=f"{share}x60"))
        assert (some.verdict, some.outcome) == (verdict, None)


def test_a_task_that_stood_at_its_top_from_the_start_proves_no_learning() -> None:
    rewards = list(0.95 + np.random.default_rng(0).normal(0, 0.01, 40))
    still = diagnose(make_run(reward_mean=rewards))
    assert still.verdict == "unproven"
    assert "was near its maximum from the start" in still.headline


@pytest.mark.parametrize(("correct", "solved"), [(0.0, False), (0.5, True)])
def test_a_maximum_of_formatting_rewards_alone_solves_nothing(correct: float, solved: bool) -> None:
    parts = {"format": 1 - correct, "correct": correct}
    rewards = [0.75, 0.875, 0.75, 1, 0.75, 0.75, 1, 0.875, 1, 1, 1, 0.875, 1]
    run = run_of([StepRecord(step=n, reward_mean=r, reward_components=parts) for n, r in enumerate(rewards, 1)])
    assert ("The reward is near its maximum" in diagnose(run).headline) is solved


def test_an_outcome_at_info_rules_out_no_problem_found() -> None:
    parts = {"format_reward": 0.1, "equation_reward": 0.0}
    rewards = [0.0, 0.1, 0.2, 0.1] * 6
    run = run_of([StepRecord(step=n, reward_mean=r, reward_components=parts) for n, r in enumerate(rewards, 1)])
    told = diagnose(run)
    assert told.verdict == "unproven"
    assert told.headline.startswith("No evidence of learning")
    assert "and only its formatting components have ever been above 0." in told.headline
    assert told.headline.endswith("Score a correct response with equation_reward: it must get more than 0.")


def test_a_gain_with_a_loss_elsewhere_is_not_reported_as_learning() -> None:
    held_out = Trajectory()
    for step, score in enumerate(series("0.8x50 0.2x50"), 1):
        held_out.push(score or 0.0, step)
    diagnosis = diagnosed(success={**LEARNT, "eval_score": held_out})
    assert diagnosis.verdict == "unproven"
    assert "but the held-out score fell back." in diagnosis.headline


def test_three_rows_of_cut_responses_over_sixty_steps_are_decisive() -> None:
    rows = list(zip((1.9, 0.5, 0.9), (0.9, 1.0, 1.0), strict=True))

    def every(steps: int) -> str:
        records = [StepRecord(step=steps * i, reward_mean=r, truncated_rate=c) for i, (r, c) in enumerate(rows, 1)]
        return diagnose(run_of(records, "test", {})).verdict

    assert (every(30), every(1)) == ("failing", "suspect")


def test_an_outcome_does_not_explain_a_worse_one() -> None:
    diagnosis = diagnosed(found("REW009", "critical", 48), found("LEN001", "warning", 5))
    assert diagnosis.cause == "REW009"
    assert diagnosis.findings[0].explained_by == []


def test_an_outcome_at_error_explains_one_that_has_lasted() -> None:
    assert diagnosed(found("REW009", "critical", 48), found("LEN001", "error", 50)).cause == "LEN001"


def test_a_finding_that_ended_before_an_outcome_is_not_its_cause() -> None:
    assert diagnosed(found("REW009", "critical", 48), found("KL001", "error", 5, last=38)).cause == "KL001"
    assert diagnosed(found("REW009", "critical", 48), found("KL001", "error", 5, last=37)).cause == "REW009"


FALLEN = trajectory("0.6x59 0.1x41")


def test_a_finding_that_held_while_the_run_improved_is_not_its_cause() -> None:
    late, early = found("KL001", "error", 22), found("KL001", "error", 20)  # a fall at 60, a third of whose time is 20
    assert diagnosed(found("REW009", "critical", 60), late, success=FALLEN).cause == "KL001"
    assert diagnosed(found("REW009", "critical", 60), early, success=FALLEN).cause == "REW009"


def test_a_proven_mechanism_may_have_held_all_along() -> None:
    proven = found("GEN001", "critical", 1, confidence="high")
    assert diagnosed(found("REW009", "critical", 60), proven, success=FALLEN).cause == "GEN001"


def test_the_first_sentence_joins_what_happened_and_why() -> None:
    diagnosis = diagnosed(found("REW009", "critical", 60), found("KL001", "error", 58), success=FALLEN)
    assert (diagnosis.outcome, diagnosis.cause, diagnosis.onset_step) == ("REW009", "KL001", 60)
    assert diagnosis.headline == "REW009 it is. Likely cause (KL001): KL001 it is."


def test_the_result_is_added_unless_a_finding_declares_to_be_about_it() -> None:
    rose = "The policy improved: the reward rose from"
    assert load().checks["REW007"].about == ("reward_mean",)
    assert load().checks["DIV004"].about == ()
    assert diagnosed(found("REW007", "warning", 9), success=LEARNT).headline == "REW007 it is."
    assert rose in diagnosed(found("DIV004", "warning", 9), success=LEARNT).headline
    held_out = Trajectory(apart=True)
    for step, score in enumerate((0.1, 0.2, 0.3), 1):
        held_out.push(score, step)
    both = diagnosed(found("REW007", "warning", 9), success={**LEARNT, "eval_score": held_out})
    assert both.headline == "REW007 it is. The held-out score changed from 0.1 to 0.3 (3 evaluations)."


def test_an_outcome_in_other_words_is_not_a_cause() -> None:
    told = diagnose(make_run(reward_mean="0x60", reward_min="0x60", reward_max="0x60"))
    assert told.headline == (
        "The reward is 0 on all 60 steps, so it gives no gradient. Check the reward function and answer extraction "
        "first."
    )


def test_a_cause_does_not_repeat_the_outcome() -> None:
    told = diagnose(make_run(reward_mean="0.3->0.5x55 0.5x5 0.02x40", entropy_mean="0.5->0.4x54 0.02x46"))
    assert told.headline == (
        "The reward fell from 0.5 to 0.02 at step 61. Likely cause (ENT001): Entropy is 0.02 nats/token (0.5 on the "
        "first row)."
    )


def test_a_reward_that_was_above_0_once_does_not_question_the_reward_function() -> None:
    told = diagnose(make_run(reward_mean="0.4 0x60", reward_min="0x61", reward_max="1 0x60", reward_std="0.5 0x60"))
    assert told.verdict == "failing"
    assert "reward function" not in told.headline


def test_an_active_cause_with_higher_confidence_displaces_past_ones() -> None:
    torn = found("STL003", "warning", 5, last=7, confidence="low")
    hacked = found("REW003", "warning", 1)
    diagnosis = diagnosed(torn, hacked, found("LEN002", "error", 5))
    assert roles(diagnosis) == {"REW003": "cause", "LEN002": "outcome", "STL003": "note"}
    as_sure = found("STL003", "warning", 5, last=7)
    assert roles(diagnosed(as_sure, hacked, found("LEN002", "error", 5)))["STL003"] == "cause"


def test_a_cause_begins_no_later_than_its_outcome_but_for_the_blur_of_the_holds() -> None:
    assert diagnosed(found("REW009", "critical", 48), found("KL001", "error", 52)).cause == "KL001"
    assert diagnosed(found("REW009", "critical", 48), found("KL001", "error", 53)).cause == "REW009"


def test_a_finding_explained_by_an_outcome_is_its_symptom() -> None:
    diagnosis = diagnosed(found("REW009", "critical", 40), found("REW001", "error", 60, confidence="high"))
    assert roles(diagnosis) == {"REW009": "outcome", "REW001": "outcome"}
    assert diagnosis.cause == "REW009"


def test_a_proven_defect_fails_the_run_although_its_cause_is_named() -> None:
    dead = found("REW001", "error", 20, confidence="high")
    diagnosis = diagnosed(found("LEN003", "error", 10), dead, success=trajectory("0.5x100"))
    assert (diagnosis.verdict, diagnosis.cause) == ("failing", "LEN003")
    assert roles(diagnosis) == {"LEN003": "cause", "REW001": "outcome"}


def test_a_small_part_of_the_batch_is_not_why_nothing_is_learnt() -> None:
    stalled, flat = found("STL001", "warning", 20), trajectory("0x100")
    assert diagnosed(found("LEN003", "error", 10), stalled, success=flat).cause == "LEN003"
    assert diagnosed(found("LEN003", "warning", 10), stalled, success=flat).cause == "STL001"
    suffered = found("LEN003", "warning", 10)
    suffered.kind = "outcome"
    assert diagnosed(suffered, stalled, success=flat).cause == "LEN003"


def test_an_outcome_that_went_away_is_a_note() -> None:
    diagnosis = diagnosed(found("STL001", "warning", 40, last=60))
    assert roles(diagnosis) == {"STL001": "note"}
    assert diagnosis.verdict == "healthy"


def test_zero_variance_from_the_start_explains_the_stall() -> None:
    diagnosis = diagnosed(found("REW001", "error", 20, confidence="high"), found("STL001", "error", 40))
    assert (diagnosis.verdict, diagnosis.cause) == ("failing", "REW001")


def test_without_an_outcome_the_strongest_warning_heads_a_run_that_does_not_learn() -> None:
    warnings = found("ADV009", "warning", 20), found("KL001", "warning", 20, confidence="low")
    flat = diagnosed(*warnings, success=trajectory("0.5x100"))
    assert (flat.verdict, flat.outcome, flat.cause) == ("suspect", None, "ADV009")
    assert flat.headline.startswith("ADV009 it is. No evidence of learning")
    assert roles(flat)["ADV009"] == "note"
    learns = diagnosed(*warnings)
    assert (learns.verdict, learns.outcome, learns.cause) == ("suspect", None, None)
    assert learns.headline.startswith("ADV009 it is. The policy improved: the reward rose from 0.1 to 0.5.")


@pytest.mark.parametrize(("risk", "verdict"), [("GRD003", "suspect"), ("CFG001", "healthy")])
def test_a_risk_weighs_less_where_the_run_learns(risk: str, verdict: str) -> None:
    assert diagnosed(found(risk, "error", 1)).verdict == verdict
    assert diagnosed(found(risk, "error", 1), success=trajectory("0.5x100")).verdict == "failing"


def test_a_defect_fails_a_run_that_learns_and_a_remark_never_does() -> None:
    assert diagnosed(found("RAT004", "error", 1)).verdict == "failing"
    assert diagnosed(found("RAT002", "error", 1)).verdict == "healthy"


def test_cleared_findings_have_no_weight_and_head_no_report() -> None:
    diagnosis = diagnosed(found("RAT004", "critical", 10, last=50))
    assert (diagnosis.verdict, diagnosis.cause, diagnosis.findings[0].cleared) == ("healthy", None, True)
    assert diagnosis.worst is Severity.INFO


def test_a_proven_critical_finding_never_clears() -> None:
    assert diagnosed(found("GRD001", "critical", 10, last=12, confidence="high")).cause == "GRD001"


def test_nothing_shows_that_a_flat_run_learns() -> None:
    flat = diagnosed(success=trajectory("0.5x50 0.51x50"))
    assert flat.verdict == "healthy"
    unproven = diagnosed(success=trajectory(" ".join(["0.5 0.4"] * 50)))
    assert unproven.verdict == "unproven"
    assert unproven.headline.startswith("No problem found, but no evidence of learning: the reward changed")


def test_a_run_without_a_reward_is_not_reported_to_learn() -> None:
    blind = diagnose(make_run(entropy_mean=[0.5] * 40, grad_norm=[0.4, 0.5] * 20))
    assert blind.verdict == "unproven"
    assert blind.headline.endswith(
        "values of the reward, the success rate or a held-out score. Log the mean reward of each step."
    )


def test_a_rising_reward_is_learning() -> None:
    learns = diagnose(make_run(reward_mean=[0.2 + 0.015 * i for i in range(40)]))
    assert learns.verdict == "healthy"
    assert learns.headline.startswith("The policy improved: the reward rose from 0.2")
    assert learns.success["reward_mean"].gained


@pytest.mark.parametrize(
    ("reward", "score", "verdict"),
    [
        (0.7, 0.7142, "unproven"),
        (0.7, 0.7143, "healthy"),
        (0.5, 1.0, "unproven"),
        (0.51, 1.0, "healthy"),
        (3.0, 0.5, "unproven"),
        (3.0, 0.41, "unproven"),  # a gain too small to matter is not made up for by its certainty
    ],
)
def test_gains_of_reward_and_held_out_score_add_up(reward: float, score: float, verdict: str) -> None:
    """Divided by the square root of two."""
    success = {
        "reward_mean": Outcome(rows=50, first=0.2, now=0.25, shown=0.1, lean=reward),
        "eval_score": Outcome(rows=5, first=0.4, now=0.5, lean=score),
    }
    assert learns(success) is (verdict == "healthy")
    assert shown(success, learns(success)).startswith(
        "The policy improved: the reward rose from 0.2 to 0.25 and the held-out score rose from 0.4 to 0.5"
    ) is (verdict == "healthy")
    assert not together({name: o for name, o in success.items() if name == "eval_score"})


def test_five_held_out_scores_that_rise_next_to_a_reward_that_leans() -> None:
    rewards = [0.25 + 0.05 * (-1) ** n + 0.0012 * n for n in range(50)]
    scores = [[0.44, 0.46, 0.5, 0.52, 0.58][n // 10] if n % 10 == 0 else None for n in range(50)]
    assert diagnose(make_run(reward_mean=rewards)).verdict == "unproven"
    assert diagnose(make_run(reward_mean=rewards, eval_score=scores)).verdict == "healthy"
    assert diagnose(make_run(reward_mean=rewards[::-1], eval_score=scores)).verdict != "healthy"


def test_a_preference_run_learns_below_ln_2() -> None:
    low = make_run(loss=[0.55, 0.6] * 20)
    low.run_type = "preference"
    assert (diagnose(low).verdict, diagnose(low).learns) == ("healthy", True)
    high = make_run(loss=[0.7, 0.68] * 20)
    high.run_type = "preference"
    assert diagnose(high).verdict == "unproven"


@pytest.mark.parametrize(("margin", "verdict"), [(0.0, "unproven"), (0.2, "unproven"), (0.6, "healthy")])
def test_a_loss_below_that_of_its_margin_is_of_another_method(margin: float, verdict: str) -> None:
    run = make_run(loss=[0.49, 0.51] * 15, reward_margin=[margin - 0.01, margin + 0.01] * 15)
    run.run_type = "preference"
    assert diagnose(run).verdict == verdict


def test_a_preference_run_is_recognised_by_the_share_of_pairs() -> None:
    run = make_run(success_rate=[0.5 + 0.004 * n for n in range(60)])
    run.run_type = "preference"
    assert diagnose(run).headline.startswith("The policy improved: the reward accuracy rose from 0.5")


def test_names_the_early_indicator_before_a_fall() -> None:
    noise = np.random.default_rng(0).normal(0, 0.01, 100)
    reward = np.where(np.arange(100) < 60, 0.6, 0.05) + noise
    gradient = np.where(np.arange(100) < 55, 0.5, 5.0) + noise
    diagnosis = diagnose(make_run(reward_mean=reward.tolist(), grad_norm=gradient.tolist(), entropy_mean="0.5x100"))
    assert [(m.field, m.step, m.lead) for m in diagnosis.moved] == [("grad_norm", 56, 5)]
    assert "Early indicator: grad_norm rose from 0.5" in diagnosis.headline or diagnosis.cause == "GRD002"


def test_reports_that_no_indicator_changed_before_a_fall() -> None:
    rng = np.random.default_rng(0)
    reward = np.where(np.arange(100) < 60, 0.6, 0.05) + rng.normal(0, 0.01, 100)
    names = ("entropy_mean", "grad_norm", "response_length_mean")
    steady: dict[str, Any] = {name: rng.normal(1, 0.1, 100).tolist() for name in names}
    diagnosis = diagnose(make_run(reward_mean=reward.tolist(), group_size="8x100", **steady))
    assert diagnosis.headline.endswith("at step 61. None of the 3 other metrics changed earlier.")
    table = next(table for table in diagnosis.tables if table.title == "Early indicators")
    assert [row[0] for row in table.rows] == ["entropy_mean", "grad_norm", "response_length_mean"]
    del steady["entropy_mean"]
    two = diagnose(make_run(reward_mean=reward.tolist(), kl_coef="0.1x100", **steady))
    assert two.headline.endswith("at step 61.")  # two say little, and what never varies nothing


def test_a_critic_that_diverges_before_a_fall_is_its_cause_and_an_early_indicator() -> None:
    noise = np.random.default_rng(1).normal(0, 0.01, 100)
    lost = np.arange(100) >= 54
    run = make_run(
        reward_mean=(np.where(np.arange(100) < 60, 0.6, 0.05) + noise).tolist(),
        value_loss=(np.where(lost, 900, 0.1) * (1 + noise)).tolist(),
        value_explained_variance=(np.where(lost, -80, 0.4) + noise).tolist(),
    )
    diagnosis = diagnose(run)
    assert [(m.field, m.step) for m in diagnosis.moved] == [("value_loss", 55), ("value_explained_variance", 55)]
    assert (diagnosis.outcome, diagnosis.cause) == ("REW009", "VAL001")


def test_a_live_fall_also_reports_early_indicators(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if a step has two records, if one looks ahead, and if the run is longer than the stored part."""
    monkeypatch.setattr("grpo_doctor.diagnosis.live.KEPT", 90)
    noise = np.random.default_rng(0).normal(0, 0.01, 120)
    reward = np.where(np.arange(120) < 80, 0.6, 0.05) + noise
    gradient = np.where(np.arange(120) < 70, 0.5, 5.0) + noise
    live = LiveDoctor()
    for row in range(120):
        live.push(StepRecord(step=row + 1, reward_mean=float(reward[row])))
        live.push(StepRecord(step=row + 1, grad_norm=float(gradient[row])))
        if row % 50 == 0:
            live.ahead(StepRecord(step=row + 2, grad_norm=1e6))
    whole = diagnose(make_run(reward_mean=reward.tolist(), grad_norm=gradient.tolist()))
    for diagnosis in (live.diagnosis(), whole):
        assert [(m.field, m.step, m.lead) for m in diagnosis.moved] == [("grad_norm", 71, 10)]


def test_a_few_good_rewards_are_not_a_solved_task() -> None:
    diagnosis = diagnose(make_run(reward_mean="1 ?x11", loss="0.1x12"))
    assert diagnosis.verdict == "unproven"
    assert "nan" not in diagnosis.headline


@pytest.mark.parametrize(("kind", "first"), [("probe", "open-the-answer"), ("rl", "complete-eos-set")])
def test_the_remedy_of_the_probe_comes_first_for_findings_on_code(kind: RunType, first: str) -> None:
    run = make_run(reward_mean="0.5x9")
    run.run_type = kind
    (finding,) = diagnosis_of(run, load(), [found("PAD005", "error", 0)], COVERAGE, {}).findings
    assert finding.remedies[0].id == first


def test_a_constant_series_is_reported_as_constant() -> None:
    told = diagnose(make_run(success_rate="0x20", kl="0.1x20")).headline
    assert "No evidence of learning: the success rate is 0 on all 20 rows." in told


def test_an_improving_run_with_truncated_responses_has_a_problem() -> None:
    run = make_run(reward_mean=[0.1 + 0.02 * row for row in range(40)], truncated_rate="0.3x40")
    found = diagnose(run)
    assert found.verdict == "healthy"
    assert found.headline.endswith(
        " 30% of the responses are truncated at the length limit. No other problem found in the recorded metrics."
    )


def test_a_loss_of_0_has_no_sign() -> None:
    run = make_run(loss=[max(2 - i / 20, 0.0) for i in range(100)])
    run.run_type = "supervised"
    assert "the loss fell from 1.88 to 0." in diagnose(run).headline


@pytest.mark.parametrize(("end", "verdict"), [(0.512, "unproven"), (0.514, "healthy")])
def test_pairs_that_come_to_chance_have_learnt_nothing(end: float, verdict: str) -> None:
    """Ties count as wrong, so the reward accuracy begins at 0 and is one half as soon as anything differs."""
    told = np.r_[np.zeros(5), np.full(55, end)] + np.tile([0.02, -0.02], 30) * (np.arange(60) >= 5)
    run = make_run(success_rate=told.tolist(), loss=[0.7] * 60)
    run.run_type = "preference"
    found = diagnose(run)
    assert found.verdict == verdict, found.headline
    assert ("The policy improved: the reward accuracy rose" in found.headline) is (verdict == "healthy")


def test_a_past_problem_is_reported_if_nothing_is_active() -> None:
    kl = [0.001] * 10 + [2.0] * 6 + [0.01] * 44
    rising = [0.1 + 0.01 * n for n in range(60)]
    d = diagnose(make_run(reward_mean=rising, kl=kl))
    assert d.verdict == "healthy"
    assert d.headline.startswith("The policy improved: the reward rose from ")
    assert " No problem is active now. Earlier problem (until step 1" in d.headline
    assert "No problem found" in diagnose(make_run(reward_mean=rising, kl=[0.001] * 60)).headline


@pytest.mark.parametrize(("margin", "verdict"), [(0.0, "unproven"), (0.2, "healthy")])
def test_the_margin_of_pairs_decides_before_their_loss(margin: float, verdict: str) -> None:
    loss = [0.69 - 0.002 * n for n in range(40)]
    run = make_run(loss=loss, reward_margin=[margin * n / 40 + 0.001 * (-1) ** n for n in range(40)])
    run.run_type = "preference"
    d = diagnose(run)
    assert (d.verdict, "loss" in d.headline) == (verdict, False)


@pytest.mark.parametrize("level", [0.5, 37.0])
def test_a_reward_that_never_changes_has_not_changed_within_noise(level: float) -> None:
    said = "No problem found, but no evidence of learning: the reward is {:.3g} on all 12 rows."
    assert diagnose(make_run(reward_mean=[level] * 12)).headline.startswith(said.format(level))


def test_a_negligible_change_beyond_the_noise_is_reported_as_a_share() -> None:
    """A public log of 216 losses fell from 0.1732 to 0.1729, seven times its smallest detectable change."""
    run = make_run(reward_mean=[1.0 + 0.0001 * n + 1e-6 * (-1) ** n for n in range(60)])
    assert "no evidence of learning: the reward changed by less than 1%, to 1." in diagnose(run).headline


NOISE = [0.3, 0.5, 0.4] * 10


@pytest.mark.parametrize(
    ("columns", "step"),
    [
        (
            {},
            "To reduce the noise, evaluate on the same held-out prompts every few steps, or use more prompts per step.",
        ),
        ({"kl": [5e-4] * 30}, "Raise the learning rate, because the KL to the reference model is 0.0005 nats/token."),
        ({"kl": [4e-6] * 30}, "Raise the learning rate, because the KL to the reference model is 4e-06 nats/token."),
        ({"reward_mean": [0.8, 0.2, 0.9] * 5 + [0.4, 0.1, 0.5] * 5, "kl": [5e-4] * 30}, "more prompts per step."),
        ({"kl": [0.02] * 30, "zero_variance_share": [0.6] * 30}, "identical rewards."),
        ({"truncated_rate": [0.11] * 30, "kl": [5e-4] * 30}, "11% of the responses are truncated."),
        ({"reward_mean": NOISE[:9]}, "Train until at least 12 values of the reward are logged."),
        (
            {"reward_mean": NOISE[:11], "kl": "0.0002x11"},
            "Train until at least 12 values of the reward are logged.",
        ),
        ({"reward_mean": NOISE[:3]}, "Train for more steps."),
        ({"reward_mean": [0.97, 0.93, 0.95] * 10}, "Use harder prompts, or stop: there is little left to gain."),
    ],
)
def test_a_run_without_evidence_ends_with_the_next_step(columns: dict[str, Any], step: str) -> None:
    assert diagnose(make_run(**{"reward_mean": NOISE, **columns})).headline.endswith(step)


@pytest.mark.parametrize(("planned", "step"), [(300, "Raise the learning rate"), (301, "Train for more steps.")])
def test_a_run_at_its_beginning_needs_more_steps_first(planned: int, step: str) -> None:
    run = make_run(reward_mean=NOISE, kl=[5e-4] * 30)
    run.settings["max_steps"] = planned
    assert step in diagnose(run).headline


@pytest.mark.parametrize(
    ("detectable", "said"),
    [
        (211, ", but consecutive values are correlated, and correlated noise can drift as far."),
        (213, " (smallest detectable change: 213)."),
    ],
)
def test_a_rise_from_correlated_noise_may_exceed_the_detectable_change(detectable: float, said: str) -> None:
    rise = Outcome(rows=30, first=158, now=370, shown=detectable, lean=0.9)
    assert shown({"reward_mean": rise}, False) == f"No evidence of learning: the reward changed from 158 to 370{said}"


def test_a_learning_rate_that_is_already_high_is_not_raised() -> None:
    high = diagnose(make_run({"learning_rate": 2e-4}, reward_mean=NOISE, kl=[5e-4] * 30))
    assert "Raise" not in high.headline


def test_held_out_scores_are_quoted_as_the_first_and_the_last_value() -> None:
    """Each is a mean over the held-out prompts, and the first is that of the untrained model."""
    scores = [s for step in range(16) for s in (0.08 if not step else 0.7 + 0.005 * step, np.nan, np.nan)]
    learns = diagnose(make_run(reward_mean=[0.2 + 0.015 * i for i in range(48)], eval_score=scores))
    assert "the held-out score changed from 0.08 to 0.775." in learns.headline


def test_held_out_scores_are_quoted_though_they_are_few() -> None:
    scores = [0.261] + [np.nan] * 20 + [0.274] + [np.nan] * 17 + [0.268]
    learns = diagnose(make_run(reward_mean=[0.2 + 0.015 * i for i in range(40)], eval_score=scores))
    assert "the held-out score changed from 0.261 to 0.268 (3 evaluations)." in learns.headline


def test_a_held_out_score_that_ends_where_it_began_has_not_changed() -> None:
    scores = [0.5] + [np.nan] * 38 + [0.5]
    learns = diagnose(make_run(reward_mean=[0.2 + 0.015 * i for i in range(40)], eval_score=scores))
    assert "the held-out score is 0.5 in the first and in the last evaluation (2 evaluations)." in learns.headline


def test_components_that_never_pay_are_named_where_the_run_does_not_learn() -> None:
    parts = [{"soft_format": 0.0, "strict_format": 0.0, "length_penalty": 0.0, "answer": 1.0}] * 30
    flat = diagnose(make_run(reward_mean=NOISE, reward_components=parts))
    assert "The reward components soft_format and strict_format are 0 on all rows." in flat.headline
    learns = diagnose(make_run(reward_mean=[0.2 + 0.02 * i for i in range(30)], reward_components=parts))
    assert "components" not in learns.headline


def test_a_fall_beyond_the_noise_is_not_called_noise() -> None:
    fell = diagnose(make_run(reward_mean=[1.1 + 0.01 * (-1) ** i - 0.002 * i for i in range(40)]))
    assert "the reward fell from 1.09 to 1.03, by more than noise (smallest" in fell.headline
    assert fell.headline.endswith(
        "Keep the checkpoint before the fall, and score it and the last checkpoint on the same prompts."
    )


def test_a_rise_within_the_first_quarter_is_reported_with_the_lost_best_level() -> None:
    """The first quarter contains the rise, and the last one is no higher than the first."""
    noise = np.random.default_rng(3).normal(0, 0.22, 200)
    levels = np.r_[np.full(24, 0.2), np.full(66, 0.7), np.full(110, 0.5)]
    run = diagnose(make_run(reward_mean=(levels + noise).tolist(), reward_max="2x200"))
    assert "the reward rose from 0.177 to 0.539, after a best level of 0.686." in run.headline
    flat = diagnose(make_run(reward_mean=(0.5 + noise).tolist(), reward_max="2x200"))
    assert not flat.learns


@pytest.mark.parametrize(
    ("losses", "margins", "verdict"),
    [
        ("0.5 0.4 0.34", "0.5 1 1.5", "healthy"),
        ("0.5 0.4 0.35", "0.5 1 1.5", "unproven"),  # half of ln 2
        ("0.5 0.34", "0.5 1.5", "unjudged"),
        ("0.5 0.4 0.34", "0.1 0.1 0.1", "unproven"),  # no preference loss: below that of the mean margin
        ("0.34 0.34 0.34", "?x3", "unproven"),  # another method: it started below half of ln 2
    ],
)
def test_three_evaluations_of_pairs_can_show_learning(losses: str, margins: str, verdict: str) -> None:
    run = make_run(eval_loss=losses, reward_margin=margins)
    run.run_type = "preference"
    told = diagnose(run)
    assert told.verdict == verdict
    improved = "The policy improved: the held-out loss is 0.34, below the initial value ln 2 (0.693)"
    assert told.headline.startswith(improved) is (verdict == "healthy")


def test_a_change_up_to_the_level_of_guessing_is_none() -> None:
    accuracy = [0.2, 0.15, 0.2, 0.25, 0.2, 0.15, 0.2, 0.55, 0.6, 0.5, 0.55, 0.6]
    run = make_run(success_rate=accuracy)
    run.run_type = "preference"
    assert "but noise does not distinguish 0.55 from guessing (0.5)" in diagnose(run).headline


def test_an_active_risk_in_a_vital_series_is_named_in_place_of_no_problem() -> None:
    plain = diagnose(make_run({"use_peft": True}, reward_mean=NOISE)).headline
    far = diagnose(make_run({"use_peft": True}, reward_mean=NOISE, kl="0.5x30")).headline
    assert plain.startswith("No problem found, but no evidence of learning: ")
    assert far.startswith("No evidence of learning: ")
    assert "The KL to the reference model was 0.5 nats/token on the first row" in far


def test_the_next_step_after_a_reward_of_0_is_the_reward_function() -> None:
    first = "Check the reward function, answer extraction, prompt template and EOS first."
    assert diagnose(make_run(reward_mean="0.1 0 0")).headline.endswith(first)
    assert diagnose(make_run(reward_mean="0.1 0 0.1")).headline.endswith("Train for more steps.")


@pytest.mark.parametrize(("planned", "told"), [(32, True), (31, False)])
def test_an_unfinished_run_is_reported_as_that_with_and_without_a_result(planned: int, told: bool) -> None:
    for rewards in (NOISE, [0.2 + 0.02 * i for i in range(30)]):
        headline = diagnose(make_run({"max_steps": planned}, reward_mean=rewards)).headline
        assert (f"The log ends at step 30 of {planned}." in headline) is told


@pytest.mark.parametrize(
    ("loss", "verdict", "said"),
    [
        ("9.7->7x40", "unproven", "but no evidence of learning: the log has no recognised values of the margin"),
        ("0.69->0.55x40", "healthy", "The policy improved: the loss is 0.566, below the initial value ln 2"),
    ],
)
def test_a_preference_loss_proves_learning_only_below_ln_2(loss: str, verdict: str, said: str) -> None:
    run = make_run({}, loss=loss)
    run.run_type = "preference"
    diagnosis = diagnose(run)
    assert said in diagnosis.headline
    assert diagnosis.verdict == verdict


@pytest.mark.parametrize(("held_out", "verdict"), [("0.68x40", "healthy"), ("0.7x40", "unproven")])
def test_a_held_out_preference_loss_above_ln_2_contradicts_learning(held_out: str, verdict: str) -> None:
    run = make_run({}, reward_margin="0.6x40", loss="0.6x40", eval_loss=held_out)
    run.run_type = "preference"
    assert diagnose(run).verdict == verdict


def test_a_saturated_reward_needs_harder_prompts_and_not_a_higher_learning_rate() -> None:
    run = make_run(reward_mean=[0.9, 1.0] * 10, kl="1e-5x20")
    assert diagnose(run).headline.endswith("Use harder prompts, or stop: there is little left to gain.")


def test_a_proven_cause_is_not_called_likely() -> None:
    proven = found("GEN001", "critical", 58, confidence="high")
    told = diagnosed(found("REW009", "critical", 60), proven, success=FALLEN)
    assert told.headline == "REW009 it is. Cause (GEN001): GEN001 it is."


@pytest.mark.parametrize(("gain", "told"), [(0.6, True), (0.7, False)])
def test_an_earlier_fall_that_is_small_next_to_the_gain_is_left_out(gain: float, told: bool) -> None:
    """The reward fell by 0.1 in a run that gained about 0.65 or 0.75."""
    early = [0.1 + 0.001 * (-1) ** row for row in range(20)] + [0.001 * (-1) ** row for row in range(12)]
    late = [gain * min(row / 40, 1) + 0.1 + 0.004 * (-1) ** row for row in range(80)]
    assert ("The reward fell from" in diagnose(make_run(reward_mean=early + late)).headline) is told


def test_a_problem_is_reported_with_the_held_out_score() -> None:
    scores = [0.3] + [np.nan] * 20 + [0.32] + [np.nan] * 17 + [0.1]
    fell = diagnose(make_run(reward_mean="0.1->0.6x20 0.6x5 0.1x15", eval_score=scores))
    assert fell.headline.endswith("The held-out score changed from 0.3 to 0.1 (3 evaluations).")


def test_components_that_rose_or_fell_are_named_where_the_sum_does_not_move() -> None:
    parts = [{"right": 0.9 - 0.02 * i, "style": 0.1 + 0.02 * i} for i in range(30)]
    flat = diagnose(make_run(reward_mean=NOISE, reward_components=parts))
    assert " Of the reward components, right fell from 0.88 to 0.34 and style rose from 0.12 to 0.62." in flat.headline


def test_an_ending_in_the_first_sentences_is_no_note(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    rows = "".join(f"step {step} | reward 0.{step} | loss 0.5\n" for step in range(1, 10))
    log.write_text(f"{rows}Traceback (most recent call last):\nKeyError: 'answer'\n")
    (told,) = map(diagnose, read(log))
    assert "with a traceback (line 10): KeyError: 'answer'" in told.headline
    assert not [note for note in told.notes if "traceback" in note]


@pytest.mark.parametrize(("top", "said"), [(-1.85, "13), after a best level of -1.85."), (-1.9, "14).")])
def test_a_best_level_far_above_the_first_and_the_last_is_reported(top: float, said: str) -> None:
    levels = np.r_[np.full(20, -2.0), np.full(20, top), np.full(20, -2.0)] + 0.1 * np.tile([1, -1, -1, 1], 15)
    reward = Trajectory()
    for step, value in enumerate(levels):
        reward.push(value, step)
    flat = "No evidence of learning: the reward is -2.01 at the start and at the end (smallest detectable change: 0."
    assert shown({"reward_mean": reward.outcome}, learning=False) == f"{flat}{said}"


@pytest.mark.parametrize(("first", "verdict"), [(0.35, "healthy"), (0.34, "unproven")])
def test_a_loss_that_was_always_far_below_ln_2_shows_no_learning(first: float, verdict: str) -> None:
    run = make_run(loss=[first + 0.001 * (-1) ** row - 0.0001 * row * (row > 10) for row in range(40)])
    run.run_type = "preference"
    assert diagnose(run).verdict == verdict


@pytest.mark.parametrize(("seed", "learns"), [(0, False), (1, True)])
def test_learned_pairs_do_not_trigger_the_check_of_pairs(seed: int, learns: bool) -> None:
    """The last losses are near ln 2 in both runs; over the whole run, only one is below it beyond the noise."""
    rng = random.Random(seed)
    run = make_run(loss=[0.693 - 0.009 * min(n / 400, 1) + rng.gauss(0, 0.02) for n in range(600)])
    run.run_type = "preference"
    told = diagnose(run)
    assert (told.learns, told.verdict) == (learns, "healthy" if learns else "suspect")
    assert [finding.cleared for finding in told.findings if finding.code == "PRF002"] == [learns]


@pytest.mark.parametrize(
    ("margins", "verdict"),
    [
        ([0.0, 0.05, 0.14, 0.36, 0.47, 0.54, 0.68, 0.73, 0.79], "healthy"),
        ([0.0, 0.05, 0.04, 0.06, 0.01, 0.07, 0.02, 0.08, 0.03], "unproven"),
    ],
)
def test_nine_margins_that_each_rise_show_learning(margins: list[float], verdict: str) -> None:
    """Batches have different pairs, so margins that do not rise are in random order."""
    run = make_run(reward_margin=margins)
    run.run_type = "preference"
    assert diagnose(run).verdict == verdict
