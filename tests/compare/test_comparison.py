"""Verdicts, outcomes of findings, and runs that cannot be compared."""

import math
from pathlib import Path

import msgspec
import pytest

from grpo_doctor.compare import Comparison, compare
from grpo_doctor.compare.arms import changes, settings_of
from grpo_doctor.compare.summary import headline
from grpo_doctor.compare.verdict import Fared
from grpo_doctor.readers import read
from grpo_doctor.record import StepRecord
from grpo_doctor.run import run_of
from tests.compare.pairs import ACROSS, answers, arm, compared, reward, run, said_of
from tests.corpus_path import CORPUS, needs_corpus


def loss(steps: int = 60, broken: int | None = None) -> list[float]:
    return [math.nan if broken is not None and step >= broken else 0.1 for step in range(1, steps + 1)]


@pytest.fixture(scope="module")
def cured() -> Comparison:
    faulty = run({"learning_rate": 1e-3}, reward_mean=reward(0, gain=0.0), loss=loss(broken=30))
    return compared(faulty, run({"learning_rate": 1e-5}, reward_mean=reward(1, gain=0.6), loss=loss()))


def test_a_fixed_run_is_better_and_its_remedy_confirmed(cured: Comparison) -> None:
    assert cured.verdict == "better"
    fared = {f.code: f for f in cured.fared}
    assert (fared["GRD001"].fate, fared["GRD001"].judgement) == ("vanished", "confirmed")
    assert headline(cured) == (
        "NEW is better: the reward is higher (0.209 → 0.799); GRD001 nan-or-inf is gone. "
        "They diverge at step 16 in reward_mean (0.205 against 0.724)."
    )
    assert [(c.name, c.base, c.new) for c in cured.settings] == [("learning_rate", 1e-3, 1e-5)]


def test_the_other_way_round_it_is_worse(cured: Comparison) -> None:
    found = compare(cured.new, cured.base)
    assert found.verdict == "worse"
    assert {f.code: f.fate for f in found.fared}["GRD001"] == "appeared"
    assert [f.severity for f in found.findings if f.code == "CMP001"] == ["error"]
    (first,) = [p for p in found.partings if p.broken is not None]
    assert (first.metric, first.at, first.broken) == ("loss", 30, "NEW")


def test_a_finding_that_the_other_side_cannot_show_is_not_compared() -> None:
    faulty = run(reward_mean=reward(0), loss=loss(broken=50))
    short = run(reward_mean=reward(1)[:40], loss=loss(40))
    (grave,) = [f for f in compared(faulty, short).fared if f.code == "GRD001"]
    assert (grave.fate, grave.judgement) == ("cannot tell", "cannot tell")
    assert grave.why == "NEW ends at step 40, and BASE showed it at step 50"
    far = run(reward_mean=reward(0), kl=[0.01] * 20 + [3.0] * 40)
    (grave,) = [f for f in compared(far, run(reward_mean=reward(1))).fared if f.code == "KL001"]
    assert (grave.fate, grave.why) == ("cannot tell", "NEW lacks what the check needs: kl")


def test_an_error_that_base_was_too_short_to_show_makes_a_better_run_mixed() -> None:
    base = run(reward_mean=[*reward(0)[:25], *[0.02] * 15], loss=loss(40))
    found = compared(base, run(reward_mean=reward(1), loss=loss(broken=50)))
    (new,) = [f for f in found.fared if f.code == "GRD001"]
    assert (new.fate, new.why) == ("appeared", "BASE ends at step 40, and NEW showed it at step 50")
    assert found.verdict == "mixed"
    assert "REW009 reward-collapse is gone; GRD001 nan-or-inf" in headline(found)


def test_a_failure_beyond_the_shared_steps_is_reported_and_inconclusive() -> None:
    short, long = run(reward_mean=reward(1)[:40], loss=loss(40)), run(reward_mean=reward(1), loss=loss(broken=50))
    found = compared(short, long)
    assert found.verdict == "inconclusive"
    assert headline(found) == (
        "BASE is healthy, NEW is failing. "
        "NEW has GRD001 nan-or-inf, but BASE ends at step 40, and NEW showed it at step 50. "
        "NEW is a copy of BASE: every metric has identical values at every shared step. "
        "They diverge at step 50, where loss of NEW is not finite."
    )
    other = compared(run(reward_mean=reward(2)[:40], loss=loss(40)), long)
    assert "showed it at step 50. No difference beyond noise in the shared steps: the reward is " in headline(other)
    assert headline(compared(long, short)).startswith(
        "BASE is failing, NEW is healthy. BASE has GRD001 nan-or-inf, but NEW ends at step 40"
    )
    brief = run(reward_mean=reward(1)[:5], loss=loss(5))
    assert headline(compared(brief, long)).startswith(
        "BASE is unjudged, NEW is failing. NEW has GRD001 nan-or-inf, but BASE ends at step 5"
    )
    assert compared(short, run(reward_mean=reward(1), loss=loss())).verdict == "no difference"


def test_a_finding_that_stays_shows_that_the_remedy_had_no_effect() -> None:
    found = compared(run(reward_mean=reward(0), loss=loss(broken=30)), run(reward_mean=reward(1), loss=loss(broken=31)))
    assert {f.code: (f.fate, f.judgement) for f in found.fared}["GRD001"] == ("stayed", "no effect")
    assert found.verdict == "no difference"


def test_several_seeds_are_taken_together() -> None:
    settings = {"learning_rate": 1e-5}
    base = arm(*(run({**settings, "seed": i}, reward_mean=reward(i)) for i in range(3)))
    new = arm(*(run({"learning_rate": 2e-5, "seed": i}, reward_mean=reward(10 + i, gain=0.1)) for i in range(3)))
    assert (base.seeds, base.settings) == (3, settings)
    found = compare(base, new)
    assert found.verdict == "worse"
    assert not found.single
    assert not any("another seed" in note for note in found.notes)


def test_the_same_run_twice_is_called_a_copy() -> None:
    once = run({"learning_rate": 1e-5}, reward_mean=reward(0))
    found = compared(once, run({"learning_rate": 1e-5}, reward_mean=reward(0)))
    assert headline(found).startswith("NEW is a copy of BASE")
    assert found.unequal is None


def test_the_share_of_equal_responses() -> None:
    one, other = run(reward_mean=[0.1, 0.2]), run(reward_mean=[0.1, 0.2])
    one.samples = {0: answers(1, "2", "two"), 1: answers(2, "2", "3")}
    other.samples = {0: answers(1, "two", "2"), 1: answers(2, "2", "4")}
    told = compared(one, other).samples
    assert told is not None
    assert (told.compared, told.same, told.share, told.parted) == (4, 3, 0.75, 2)


@pytest.mark.parametrize(
    ("base", "new", "why"),
    [
        (
            run(reward_mean=range(20)),
            run(first=50, reward_mean=range(20)),
            "BASE has steps 1 to 20 and NEW has 50 to 69",
        ),
        (run(reward_mean=range(20)), run(loss=range(20)), "they have no metric in common"),
        (run(reward_mean=range(20)), run(), "no training metrics were found"),
    ],
)
def test_cannot_compare_because(base: object, new: object, why: str) -> None:
    found = compared(base, new)  # type: ignore[arg-type]
    assert found.verdict == "cannot tell"
    assert headline(found).startswith(f"Cannot compare, because {why}")


def test_different_lengths_logs_and_restarts_are_reported() -> None:
    again = [*range(1, 31), *range(20, 51)]
    resumed = run_of(
        [StepRecord(step=step, reward_mean=value) for step, value in zip(again, reward(0, 61), strict=True)]
    )
    resumed.format = "trl-console"
    found = compared(run(reward_mean=reward(1, 90)), resumed)
    assert found.verdict == "no difference"
    told = "\n".join(found.notes)
    assert "only steps 1 to 50 are compared: BASE continues to 90" in told
    assert "NEW: the step counter goes back; for 11 repeated rows" in told
    assert "written by different programs (records, trl-console)" in told


def test_rewards_of_other_components_are_not_compared() -> None:
    sides = [run(reward_mean=reward(0), reward_components=[{name: 0.1}] * 60) for name in ("right", "format")]
    found = compared(*sides)
    assert found.difference("reward_mean") is None
    assert any("different components" in note for note in found.notes)


def test_settings_are_reported_once_and_names_never() -> None:
    declared = {"beta": 0.02, "kl_coef": 0.02, "run_name": "a", "seed": 1, "inject": None}
    made = run(declared, reward_mean=[0.1, 0.2], temperature=[0.7, 0.7], learning_rate=[1e-6, 1e-5])
    known = settings_of(made)
    assert known == {"kl_coef": 0.02, "seed": 1, "temperature": 0.7, "learning_rate": 1e-5}
    (seed, save) = changes({"save_steps": 10, **known}, {"save_steps": 20, **known, "seed": 2})
    assert (seed.name, seed.acts, save.name, save.acts) == ("seed", True, "save_steps", False)


def test_settings_that_differ_by_rounding_alone_are_the_same() -> None:
    same = {"learning_rate": 1e-06, "betas": [0.9, 0.95], "seed": 12345678901, "lr": "1e-6"}
    other = {
        "learning_rate": 1.0000000000000002e-06,
        "betas": [0.9, 0.9500000000000001],
        "seed": 12345678902,
        "lr": 1e-6,
    }
    assert [c.name for c in changes(same, other)] == ["seed"]
    runs = [run(settings, reward_mean=reward(0)) for settings in ({"learning_rate": 1e-06}, other)]
    assert headline(compared(runs[0], runs[0])).startswith("NEW is a copy of BASE")


def test_series_without_noise_have_no_detectable_difference() -> None:
    equal = reward(0)
    found = compared(run(reward_mean=equal, entropy_mean=reward(1)), run(reward_mean=equal, entropy_mean=reward(2)))
    same = next(d for d in found.differences if d.metric == "reward_mean")
    assert (same.noisy, same.shown) == (False, "–")


def test_few_shared_steps_are_counted() -> None:
    found = compared(run(reward_mean=[0.1, 0.3, 0.2, 0.4]), run(reward_mean=[0.2, 0.1, 0.4, 0.3]))
    assert any(note.startswith("4 shared steps; at least 8 are needed to estimate the noise") for note in found.notes)


def test_the_status_of_a_finding_is_in_plain_words() -> None:
    found = Fared(code="A", name="a", severity="error", fate="vanished")
    assert (found.status, msgspec.structs.replace(found, fate="stayed").status) == ("gone", "unchanged")


def test_an_inconclusive_comparison_states_why() -> None:
    new = [value + 0.08 for value in reward(1, noise=0.01)]
    found = compared(run(reward_mean=reward(0, noise=0.01)), run(reward_mean=new))
    assert found.verdict == "inconclusive"
    assert headline(found).startswith("Inconclusive: the reward is higher in NEW (0.695 → 0.772), but runs")
    assert headline(found).endswith("but runs of one setting with different seeds may differ as much.")


@needs_corpus
def test_names_the_divergence_and_the_healthy_side_of_two_public_runs() -> None:
    logs = (CORPUS / f"{name}-assignment5-alignment" / "metrics.jsonl" for name in ("R028", "R029"))
    found = compared(*(read(path)[0] for path in logs))
    assert found.verdict == "better"
    assert [d.verdict for d in (*found.base.diagnoses, *found.new.diagnoses)] == ["failing", "healthy"]
    assert {f.code: f.fate for f in found.fared}["GRD001"] == "vanished"
    assert found.parting is not None
    assert found.parting.at < 113 < 195
    assert [c.name for c in found.settings] == ["loss_type"]
    assert any("but not its cause" in note for note in found.notes)


@needs_corpus
@pytest.mark.parametrize("code", ACROSS)
def test_evidence_of_the_checks_across_runs(code: str) -> None:
    assert code in said_of(ACROSS[code])


@needs_corpus
def test_a_fix_without_effect_is_reported() -> None:
    runs = {run.source.partition(".csv ")[2].strip("()"): run for run in read(CORPUS / "seed-lever" / "epochs.csv")}
    found = compared(runs["kl012_frozen"], runs["plan5"])
    assert {"kl_coef", "use_rank_env"} <= {c.name for c in found.acting}
    (told,) = [f for f in found.findings if f.code == "REC003"]
    assert "advantage_std is identical to the last digit at all 3 shared steps" in told.message
    assert found.verdict == "cannot tell"
    assert Path(found.base.name).name == "epochs.csv (kl012_frozen)"
