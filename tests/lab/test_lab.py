"""The fault experiments: which runs they start, that they resume after an interruption, and how results are counted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from scipy.stats import binomtest
from typer.testing import CliRunner

from grpo_doctor.cli import app
from grpo_doctor.engine.faults import FAULTS
from grpo_doctor.engine.task import load_task
from grpo_doctor.engine.tiny import make_model, make_tokenizer
from grpo_doctor.lab import arms, curves, evidence, judge, train
from grpo_doctor.lab.arms import ALONE, COMMON_ADVICE, FIXED, REFERENCE, ROLLED_BACK, Job
from grpo_doctor.lab.calibration import Case, calibrated, cases_of_lab, cases_of_logs, share
from grpo_doctor.lab.evidence import measured_of, tables
from grpo_doctor.lab.judge import Row
from grpo_doctor.lab.task import KingdomTask
from tests.quick import quick

PAIR = ("kl-dominates", "length-bonus")
TRIED = tuple(COMMON_ADVICE)[:2]
SIZE = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random weights, four steps of eight short responses, and two treatments."""

    def model(settings: Any) -> tuple[Any, Any]:
        return quick(make_model(seed=3, **{**SIZE, "num_key_value_heads": 2})), make_tokenizer()

    monkeypatch.setattr(train, "load_model", model)
    short = {"max_steps": 4, "generation_batch_size": 8, "num_generations": 4, "max_completion_length": 4}
    of_tiny = arms.Scale({**arms.SMALL, **short}, PAIR, (FIXED, *TRIED))
    monkeypatch.setattr(arms, "SCALES", {arms.TINY: of_tiny})


class PlugPulledError(RuntimeError):
    """Raised instead of a power failure."""


def whole(folder: Path, patience: int = 1000) -> None:
    """Run the experiments of two faults, interrupted after this many runs."""
    left = [patience]

    def done(job: Job) -> None:
        left[0] -= 1
        if not left[0]:
            raise PlugPulledError

    train.train_all(folder, arms.observed(PAIR, 0), 1, done)
    train.train_all(folder, arms.treatments(judge.harmed(folder, PAIR, 0), 0), 1, done)


@pytest.mark.usefixtures("tiny")
def test_a_lab_that_was_interrupted_twice_has_the_same_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole(tmp_path / "at once")
    for patience in (2, 3):
        with pytest.raises(PlugPulledError):
            whole(tmp_path / "in parts", patience)
    (tmp_path / "in parts" / PAIR[0] / "0" / "state.pt").unlink()  # the start of a treatment is trained again
    whole(tmp_path / "in parts")
    at_once, in_parts = (judge.rows(tmp_path / name, PAIR) for name in ("at once", "in parts"))
    assert at_once == in_parts
    assert {(row.fault, row.arm) for row in at_once} == {
        ("healthy", REFERENCE), *((name, arm) for name in PAIR for arm in (ALONE, FIXED, ROLLED_BACK, *TRIED)),
    }  # fmt: skip
    assert measured_of(at_once, {}).faults.keys() == set(PAIR)
    assert "`grpo-doctor lab --fault kl-dominates`" in tables(at_once, {})
    untreated = [row for row in at_once if row.arm == ALONE]
    assert {(row.sentence is None, row.start is None, row.device) for row in untreated} == {(False, False, "cpu")}
    assert {row.weights for row in at_once} == {
        sum(p.numel() for p in make_model(**SIZE, num_key_value_heads=2).parameters())
    }


@pytest.mark.usefixtures("tiny")
def test_a_run_that_breaks_leaves_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Any, *_: Any) -> Any:
        raise PlugPulledError

    monkeypatch.setattr(train.Watched, "rollout", broken)
    with pytest.raises(PlugPulledError):
        train.train(tmp_path, Job("kl-dominates", ALONE, 0))
    assert list(tmp_path.rglob("*.json*")) == []


@pytest.mark.usefixtures("tiny")
def test_a_treatment_continues_the_failing_run_with_a_fixed_engine(tmp_path: Path) -> None:
    engine, settings = arms.treated(Job("kl-dominates", FIXED, 1))
    assert (engine.__name__, settings.beta, settings.seed) == ("Engine", 0.02, 1)
    engine, settings = arms.treated(Job("kl-dominates", "raise-group-size", 1))
    assert (engine, settings.num_generations, settings.beta) == (FAULTS["kl-dominates"], 8, 10.0)
    train.train(tmp_path, Job("kl-dominates", FIXED, 0))
    result = judge.result_of(tmp_path, Job("kl-dominates", FIXED, 0))
    assert (result.since, len(result.scores), result.settings["inject"]) == (1, 3, [])


@pytest.mark.usefixtures("tiny")
def test_a_rollback_equals_the_reference_run(tmp_path: Path) -> None:
    job = Job("nan-at-step", ROLLED_BACK, 0)
    twin, lost, again = (
        train.trainer(*arms.fixed(job)),
        train.trainer(*arms.faulty(job)),
        train.trainer(*arms.fixed(job)),
    )
    healthy = arms.begins(job.fault, twin.settings.max_steps) - 1
    steps = lost.run()
    for _ in range(healthy):
        next(steps)
    lost.save(tmp_path / "healthy.pt")
    again.load(tmp_path / "healthy.pt")
    assert (len(list(twin.run())), len(list(again.run()))) == (4, 4 - healthy)
    assert again.scores == twin.scores[healthy:]
    assert all(torch.equal(a, b) for a, b in zip(again.engine.parameters, twin.engine.parameters, strict=True))


def test_a_treatment_without_a_change_is_not_tried() -> None:
    idle = [name for name in FAULTS if arms.idle(Job(name, "temperature-one", 0))]
    assert set(FAULTS) - set(idle) == {"double-temperature", "train-mode-generation"}


def test_faults_with_the_same_circumstances_share_a_reference_run() -> None:
    assert arms.reference_of("kl-dominates") == "healthy"
    assert arms.reference_of("mean-of-micro-batch-means") == arms.reference_of("unscaled-accumulation") != "healthy"


@pytest.mark.parametrize("name", FAULTS)
def test_a_treatment_starts_after_the_fault(name: str) -> None:
    steps = arms.faulty(Job(name, ALONE, 0))[1].max_steps
    assert arms.begins(name, steps) <= arms.since(name, steps) < steps


# -- larger models ---------------------------------------------------------------------------------------------


def test_the_real_model_has_its_own_task_and_the_settings_of_the_fault() -> None:
    jobs = list(arms.observed(arms.MOST_SEVERE, 1, "smollm2"))
    assert [job.fault for job in jobs] == ["healthy", *arms.MOST_SEVERE]
    engine, settings = arms.faulty(Job("lr-too-high", ALONE, 1, "smollm2"))
    assert (engine, settings.model, settings.learning_rate, settings.seed) == (
        FAULTS["lr-too-high"],
        "smollm2",
        4e-2,
        1,
    )
    assert isinstance(load_task(settings.task, settings.reward), KingdomTask)


@pytest.mark.parametrize(
    ("answer", "reward"), [(" Plant", 1.0), ("animal", 0.2), ("an oak is a plant", 0.0), ("plant.", 0.0), ("", 0.0)]
)
def test_animal_or_plant(answer: str, reward: float) -> None:
    task = KingdomTask()
    oak = next(example for example in task.examples if example.dialogue[-1]["content"] == "oak")
    (score,) = task.score([oak], [answer], [True])
    assert (score.reward, score.valid, score.success) == (reward, reward > 0, reward == 1)


def test_the_table_of_the_real_model_begins_with_the_reference_run_and_its_causes() -> None:
    twin = Row(fault="healthy", arm=REFERENCE, seed=0, steps=16, end=0.9, twin=0.9, command="again", versions="")
    twin.wrong = ["KL002 low"]
    faulty = row(ALONE, 0.1, named="KL002", named_step=3, died="step 4: the weights are not finite")
    head, (first, second) = evidence._larger({("healthy", REFERENCE): [twin], ("kl-dominates", ALONE): [faulty]})
    assert not {"start", "fixed in place", "rolled back"}.intersection(head), "no run has them"
    told = [dict(zip(head, line, strict=True)) for line in (first, second)]
    assert (told[0]["reference"], told[0]["no remedy"], told[0]["other causes"]) == ("0.90 (one seed)", "", "KL002 low")
    assert (told[1]["named by"], told[1]["at step"], told[1]["died"]) == ("KL002", "3", faulty.died)


def test_the_page_has_the_stored_results_of_the_real_model(tmp_path: Path) -> None:
    small = [row(ALONE, 0.1), row(REFERENCE, 0.5)]
    evidence.write_rows(tmp_path / evidence.PARQUET, small)
    assert "With a real model" not in evidence.texts(tmp_path)[tmp_path / evidence.PAGE]
    real = [msgspec.structs.replace(small[1], fault="healthy"), row(ALONE, 0.1, cause="ADV004", confidence="high")]
    evidence.write_rows(tmp_path / evidence.LARGER["smollm2"], real)
    page = evidence.texts(tmp_path)[tmp_path / evidence.PAGE]
    assert "## With a real model" in page
    assert "| high | 0 of 1 |" in page, "its causes count as those of the tiny model do"


def test_the_page_names_the_runs_of_a_larger_model_that_were_not_run() -> None:
    large = "embedded-large"
    planned = [job for seed in range(3) for job in arms.observed(arms.MOST_SEVERE, seed, large)]
    told = {"device": "H100", "date": "2026-11-28", "weights": 10**8}
    harmed, unharmed = (
        [msgspec.structs.replace(row(job.arm, end, job.seed, **told), fault=job.fault) for job in planned]
        for end in (0.1, 0.5)
    )
    section = evidence._at_scale(large, harmed[:-1])
    assert (section["weights"], section["times"]) == ("100", "1521")
    assert (section["seeds"], section["device"], section["date"]) == ("3 seeds", "H100", "2026-11-28")
    assert section["missing"].startswith("fixed in place, seed 0: all faults; ")
    assert f"no remedy, seed 2: `{arms.MOST_SEVERE[-1]}`; " in section["missing"]
    assert evidence._at_scale(large, unharmed)["missing"] == "", "a fault without harm is not treated"


# -- how it counts ---------------------------------------------------------------------------------------------


def row(arm: str, end: float, seed: int = 0, **more: Any) -> Row:
    return Row(fault="kl-dominates", arm=arm, seed=seed, steps=40, end=end, twin=0.5, command="", versions="", **more)


@pytest.mark.parametrize(
    ("ends", "verdict"),
    [((0.45, 0.47), "recovers"), ((0.25, 0.29), "helps"), ((0.1, 0.12), "does nothing"), ((0.0, 0.02), "harms")],
)
def test_verdicts(ends: Sequence[float], verdict: str) -> None:
    rows = [row(ALONE, 0.1 + seed / 50, seed) for seed in range(2)]
    rows += [row("clip-harder", 0.11 + seed / 100, seed) for seed in range(2)]  # the noise of a gain is its spread
    rows += [row(FIXED, end, seed) for seed, end in enumerate(ends)]
    assert {r.verdict for r in judge._with_verdicts(rows) if r.arm == FIXED} == {verdict}


def test_the_page_names_the_faults_that_the_right_remedy_did_not_fix() -> None:
    def cell(fault: str, arm: str, verdict: Any) -> tuple[tuple[str, str], list[Row]]:
        return (fault, arm), [row(arm, 0.1, verdict=verdict)]

    cells = [cell("a", FIXED, "recovers"), cell("b", FIXED, "helps"), cell("c", FIXED, "does nothing")]
    cells += [cell("b", ROLLED_BACK, "recovers"), cell("c", ROLLED_BACK, "helps")]
    told = evidence._brought_back(dict(cells))
    assert "restores the run for 1 of 3 harmful faults. If the weights stay damaged, only" in told
    assert told.endswith("For `c`, neither a fix nor a rollback restores the run before its end.")
    assert evidence._brought_back(dict(cells[:1])) == "A fix in place restores the run for 1 of 1 harmful faults."


def test_steps_that_a_run_did_not_reach_count_as_0() -> None:
    assert judge._end([1.0] * 25, 25, 8) == 1
    assert judge._end([1.0] * 21, 25, 8) == 0.5
    assert judge._end([1.0] * 5, 25, 8) == 0


def test_the_interval_is_wilsons() -> None:
    found, known = share([True] * 41 + [False] * 2), binomtest(41, 43).proportion_ci(method="wilson")
    assert (found.right, found.of) == (41, 43)
    assert (found.low, found.high) == pytest.approx((known.low, known.high), abs=1e-3)
    assert str(found) == "correct in 41 of 43 such cases while the checks were written, 95% interval 84% to 99%"


def test_one_wrong_run_of_a_project_makes_it_wrong_and_its_right_ones_count_once() -> None:
    cases = [Case("a", "high", True)] * 5 + [Case("b", "high", True), Case("b", "high", False), Case("b", "low", True)]
    found = calibrated(cases)
    assert [(kind, s.right, s.of) for kind, s in found.items()] == [("high", 1, 2), ("low", 1, 1)]


def test_a_cause_of_a_healthy_run_is_wrong() -> None:
    healthy = Row(fault="healthy", arm=REFERENCE, seed=0, steps=40, end=0.5, twin=0.5, command="", versions="")
    healthy.cause, healthy.confidence = "KL002", "low"
    faulty = row(ALONE, 0.1, cause="KL002", confidence="medium")
    assert [case.right for case in cases_of_lab([healthy, faulty])] == [False, True]


def test_the_cause_of_a_log_is_judged_by_its_label() -> None:
    def case(cause: str, families: str, expect: str = "failing") -> dict[str, str]:
        return {"repo": cause, "cause": cause, "confidence": "low", "families": families, "expect": expect}

    rows = [case("LEN003", "LEN REW"), case("KL002", "LEN"), case("KL001", "", "healthy"), case("KL001", "")]
    rows += [case("END002", "KL"), case("", "LEN")]
    assert [(c.of, c.right) for c in cases_of_logs(rows)] == [("LEN003", True), ("KL002", False), ("KL001", False)]


def test_the_command_reports_what_is_unknown(tmp_path: Path) -> None:
    wrong = CliRunner().invoke(app, ["lab", "--fault", "kl-dominate", "--out", str(tmp_path)])
    assert (wrong.exit_code, "did you mean 'kl-dominates'" in wrong.output) == (2, True)
    big = CliRunner().invoke(app, ["lab", "--model", "embedded", "--out", str(tmp_path)])
    assert (big.exit_code, "choose embedded-small or embedded-large or smollm2" in " ".join(big.output.split())) == (
        2,
        True,
    )
    all_of_them = CliRunner().invoke(app, ["lab", "--out", str(tmp_path / "none")])
    assert (all_of_them.exit_code, "or confirm with --yes" in " ".join(all_of_them.output.split())) == (2, True)
    assert not (tmp_path / "none").exists()
    nothing = CliRunner().invoke(app, ["lab", "--jobs", "0", "--out", str(tmp_path)])
    assert nothing.exit_code == 0


def test_evidence_of_no_run_is_not_written(tmp_path: Path) -> None:
    words = ["lab", "--jobs", "0", "--out", str(tmp_path / "runs"), "--evidence", str(tmp_path / "evidence")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2
    assert "contains no run to evaluate; omit --jobs to train them" in " ".join(done.output.split())
    assert not (tmp_path / "evidence").exists()


def test_the_curves_are_those_of_the_runs_that_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curves, "SHOWN", curves.SHOWN[:2])
    monkeypatch.setattr(curves, "FIELDS", {"reward_mean": "reward"})
    records = tmp_path / "healthy" / "0" / "twin.jsonl"
    records.parent.mkdir(parents=True)
    records.write_text("".join(f'{{"step": {i}, "reward_mean": {i / 10}, "loss": 0.1}}\n' for i in range(1, 9)))
    for name in ("a.svg", "b.svg"):
        curves.draw(tmp_path / name, tmp_path)
    text = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert text == (tmp_path / "b.svg").read_text(encoding="utf-8")
    assert text.count("stroke: #1d4ed8") == 1
    assert "stroke: #b91c1c" not in text
