"""Diagnoses of the logs of the two trainers with which the project began, and of logs in their format."""

import math
from pathlib import Path

import pytest

from grpo_doctor import Diagnosis, Run, diagnose
from grpo_doctor.readers import read
from tests.corpus_path import CORPUS, needs_corpus

DUAL = CORPUS / "seed-dual" / "Logging_6075bf1.txt"
EPOCHS = CORPUS / "seed-lever" / "epochs.csv"


def lever() -> dict[str, Diagnosis]:
    return {run.source.rpartition(" (")[2].removesuffix(")"): diagnose(run) for run in read(EPOCHS)}


def grave(diagnosis: Diagnosis) -> set[str]:
    return {finding.code for finding in diagnosis.findings if finding.severity != "info"}


@needs_corpus
def test_the_dual_log_is_suspect_and_was_so_before_any_update() -> None:
    (run,) = read(DUAL)
    diagnosis = diagnose(run)
    assert (diagnosis.verdict, diagnosis.cause) == ("suspect", "ENT012")
    assert diagnosis.headline == (
        "Entropy was 0.032 nats on the first row, before any update (sampled at temperature "
        "0.75). The cause is an earlier training stage or the sampler, not the entropy coefficient or the group "
        "size. Only 4 rows were logged (reward 0.499, then 0.52)."
    )
    assert [rival.name for rival in diagnosis.findings[0].rivals][:3] == [
        "the supervised stage was too long or too uniform",
        "the RL template differs from the template of the supervised stage",
        "rollouts use a low temperature, top-k or penalties",
    ]
    assert any(text.startswith("Do not use (ENT012): the supervised stage") for text in diagnosis.next_run)
    assert "LEN004" not in grave(diagnosis)


@needs_corpus
def test_zero_variance_groups_of_the_dual_log_by_task() -> None:
    (run,) = read(DUAL)
    (table,) = [t for t in diagnose(run).tables if t.title.startswith("Zero-variance groups")]
    assert [row[:3] for row in table.rows] == [
        ["fairness", "12", "5 (41.7%)"],
        ["hallucination", "12", "2 (16.7%)"],
        ["all", "24", "7 (29.2%)"],
    ]


@needs_corpus
def test_a_declared_coefficient_of_6_is_flagged_and_its_sign_left_to_a_probe() -> None:
    (run,) = read(DUAL)
    run.settings["entropy_coef"] = 6
    diagnosis = diagnose(run)
    found = diagnosis.finding("ENT008")
    assert found is not None
    assert found.severity == "error"  # a risk without evidence that the run still learns
    assert "Check the sign of the entropy term with a probe" in found.message
    assert diagnosis.verdict == "failing"


@needs_corpus
@pytest.mark.parametrize("name", ["kl012_frozen", "plan5", "plan6"])
def test_the_stalls_of_the_selector(name: str) -> None:
    diagnosis = lever()[name]
    assert (diagnosis.verdict, diagnosis.cause) == ("suspect", "ADV004")
    assert "ADV004" in grave(diagnosis)
    assert diagnosis.finding("STL006") is not None
    assert "at most 0.9% of the groups have differing rewards" in diagnosis.headline
    ranks = next(rival for rival in diagnosis.findings[0].rivals if "rank" in rival.name)
    assert "0.577" in ranks.why


@needs_corpus
def test_the_share_of_the_kl_term_is_weak_evidence() -> None:
    diagnosis = lever()["kl012_frozen"]
    found = diagnosis.finding("KL002")
    assert found is not None
    assert "weak evidence" in found.message
    (table,) = [t for t in diagnosis.tables if t.title.startswith("Share of the KL term")]
    assert [row[-1] for row in table.rows] == ["97.1%", "92.2%", "90.6%"]
    assert table.note.startswith("Weak evidence")


@needs_corpus
def test_reports_nan_and_a_kl_of_17_despite_normal_advantages() -> None:
    runs = lever()
    assert (runs["v4_9"].verdict, runs["v4_9"].cause) == ("failing", "GRD001")
    for name in ("plan7", "plan7_1", "plan7_2", "plan5+8"):
        found = runs[name].finding("KL001")
        assert found is not None
        assert found.severity == "error"
    for name in ("kl0145", "kl0155"):
        assert not {f.code for f in runs[name].findings} & {"STL006", "ADV004", "KL001"}


HEAD = (
    f"{'Epoch':>6} {'Train Loss':>12} {'Val Loss':>12} {'PPO Loss':>12} {'KL':>10} {'Adv Std':>10} {'Adv Max':>10} "
    f"{'Beta':>8}"
)
PRINTED = {
    "loss": "12.5f", "eval_loss": "12.5f", "policy_loss": "12.5f", "kl": "10.5f", "advantage_std": "10.4f",
    "advantage_max": "10.4f", "kl_coef": "8.4f",
}  # fmt: skip


def printed(run: Run) -> str:
    """The run as its trainer prints it, ``-`` where the CSV has an empty cell."""
    lines = [HEAD]
    empty = {name for name in PRINTED if run.column(name) is None}
    nan = {event.message.removesuffix(" is NaN") for _, event in run.all_events()}
    for row, step in enumerate(run.steps.tolist()):
        cells = [f"{step:6d}"]
        for name, form in PRINTED.items():
            value = math.nan if name in empty else float(run.column(name)[row])  # type: ignore[index]
            cells.append("-" if math.isnan(value) and name not in nan else format(value, form))
        lines.append(" ".join(cells))
    return "\n".join(lines)


@needs_corpus
def test_the_table_that_the_trainer_prints_gives_the_same_findings(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    for run in read(EPOCHS):
        path.write_text(printed(run), encoding="utf-8")
        (same,) = read(path)
        assert [(f.code, f.message) for f in diagnose(same).findings] == [
            (f.code, f.message) for f in diagnose(run).findings
        ]


ONE_LINE = "[Step {step} Logits] Max logit={logit}, Gap={gap}, Top5=[{top}, 0.0002, 0.0001]\n[Fairness诊断] Entropy(mean)={entropy}\nEOS Suppressor 触发率: {percent}% ({blocked}/8)\n"


def one_line(path: Path, **columns: list[float]) -> Diagnosis:
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    path.write_text("".join(ONE_LINE.format(step=i, **row) for i, row in enumerate(rows)), encoding="utf-8")
    (run,) = read(path)
    return diagnose(run)


def test_the_broken_figures_of_the_dual_trainer(tmp_path: Path) -> None:
    diagnosis = one_line(
        tmp_path / "train.log",
        logit=[31, 30, 32, 31, 33, 30, 31, 32, 30, 31],
        gap=[8.2, 7.1, 9.8, 8.0, 7.5, 9.0, 8.4, 7.9, 8.8, 8.1],
        top=[0.999] * 10,
        entropy=[0.03, 0.02, 0.033, 0.015, 0.005, 0.012, 0.05, 0.02, 0.008, 0.03],
        percent=[100] * 10,
        blocked=[8] * 10,
    )
    assert (diagnosis.verdict, diagnosis.cause) == ("failing", "ENT012")
    assert grave(diagnosis) == {"ENT001", "ENT012", "SHP001"}


def test_the_healthy_figures_of_the_dual_trainer(tmp_path: Path) -> None:
    diagnosis = one_line(
        tmp_path / "train.log",
        logit=[22, 20, 25, 21, 23, 24, 22, 20, 21, 25],
        gap=[4.0, 3.1, 4.9, 3.5, 4.2, 3.0, 5.0, 4.4, 3.8, 4.1],
        top=[0.7, 0.85, 0.6, 0.72, 0.8, 0.66, 0.75, 0.7, 0.81, 0.69],
        entropy=[0.9, 0.5, 1.5, 1.1, 0.8, 0.7, 1.2, 1.0, 0.6, 0.9],
        percent=[38, 50, 38, 50, 38, 38, 50, 38, 38, 50],
        blocked=[3, 4, 3, 4, 3, 3, 4, 3, 3, 4],
    )
    assert (diagnosis.verdict, grave(diagnosis)) == ("unproven", set())
