"""Irrelevant changes do not change the diagnosis, on generated logs and on a sample of the real ones."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest

from grpo_doctor.diagnosis.examine import diagnose
from grpo_doctor.readers import read
from tests import metamorphic
from tests.corpus_path import CORPUS, needs_corpus
from tests.fuzz import seeds
from tests.synthetic import runs

TEXTS = ("metrics.jsonl", "train.log", "verl.log", "hand.log", "table.csv", "records.jsonl", "dual.log", "aflow.log")
SAMPLE = ("R133-colab-grpo/training_p30.log",)


@pytest.mark.parametrize(
    "make", [runs.healthy, runs.converged, runs.entropy_collapse, runs.kl_explosion, runs.reward_cliff, runs.one_token]
)
def test_the_scale_of_the_reward_changes_no_verdict(make: metamorphic.Made) -> None:
    run = runs.run_of(make, 1)
    known = diagnose(run).verdict
    told = {name: diagnose(metamorphic.rescaled(run, *scale)).verdict for name, scale in metamorphic.SCALES.items()}
    if make in (runs.healthy, runs.one_token):
        assert told == dict.fromkeys(told, known)
    elif make is runs.converged:  # at 0.92 since the first row: only its scale shows that it is solved
        assert set(told.values()) <= {"healthy", "unproven", "suspect"}
    else:  # a fall is a share of its level, so one on top of a constant weighs less
        milder = (
            known if make is runs.kl_explosion else "suspect"
        )  # its held-out score falls, to which nothing is added
        assert told == {"x 0.01": known, "x 1000": known, "+ 5": milder}


def test_tied_groups_are_not_a_failure_if_the_scale_of_the_reward_is_unknown() -> None:
    run = runs.run_of(runs.converged, 2)
    run.columns["zero_variance_share"][:] = 0.9
    run.columns["entropy_mean"][200:] *= 0.01
    for scale in metamorphic.SCALES.values():
        assert diagnose(metamorphic.rescaled(run, *scale)).verdict != "failing"


def unpaid(seed: int) -> dict[str, np.ndarray]:
    """Return a run in which no response gets a reward."""
    return {"reward_mean": np.zeros(runs.STEPS), "reward_std": np.zeros(runs.STEPS)}


def nearly_solved(seed: int) -> dict[str, np.ndarray]:
    """Return a reward from 0.99 to 0.93 with no single reward below 0.85."""
    level = np.where(np.arange(runs.STEPS) < runs.STEPS // 2, 0.99, 0.93)
    rewards = level + np.random.default_rng(seed).normal(0, 0.004, runs.STEPS)
    return {"reward_mean": rewards, "reward_min": np.full_like(level, 0.85), "reward_max": np.ones_like(level)}


def test_why_a_constant_on_top_of_the_reward_may_make_a_verdict_milder() -> None:
    """A reward of 0 means no reward, but the meaning of equal rewards of 5 is unknown.

    The lowest reward of a run is not the lower end of its scale, because a good run never reaches that end. Otherwise a
    dip would count as a loss of half of the gain.
    """
    never_paid = runs.run_of(unpaid, 1)
    assert diagnose(never_paid).verdict == "failing"
    assert diagnose(metamorphic.rescaled(never_paid, 1.0, 5.0)).verdict == "suspect"
    assert diagnose(runs.run_of(nearly_solved, 1)).verdict != "failing"


def test_a_violation_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    run = runs.run_of(runs.healthy, 1)
    monkeypatch.setattr(metamorphic, "SCALES", {"x -1": (-1.0, 1.0)})
    assert list(metamorphic.scale_of_the_reward(run)) == ["reward x -1: healthy → failing"]


@pytest.mark.parametrize("name", TEXTS)
def test_a_log_is_read_up_to_its_cut_and_rows_to_come_change_nothing(name: str, tmp_path: Path) -> None:
    path = tmp_path / "whole" / name
    path.parent.mkdir()
    path.write_bytes(seeds.logs()[name])
    found = read(path)
    assert list(metamorphic.cut_anywhere(path, found, tmp_path, random.Random(1))) == []
    for run in found:
        assert list(metamorphic.rows_to_come(run)) == []


def test_a_key_under_another_name_is_judged_the_same(tmp_path: Path) -> None:
    for name in ("metrics.jsonl", "train.log", "table.csv"):
        path = tmp_path / "whole" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(seeds.logs()[name])
        assert list(metamorphic.names_of_keys(path, read(path), tmp_path)) == []


def test_the_order_of_files_does_not_matter(tmp_path: Path) -> None:
    paths = []
    for number in range(3):
        rows = [{"step": i, "reward": 0.1 * number + 0.01 * i * (number + 1), "loss": 0.1 / i} for i in range(1, 15)]
        paths.append(tmp_path / f"{number}.jsonl")
        paths[-1].write_text("\n".join(map(json.dumps, rows)))
    preference = [
        {"step": i, "loss": 0.7 - 0.01 * i, "rewards/chosen": 0.1 * i, "rewards/rejected": -0.1 * i}
        for i in range(1, 15)
    ]
    for name, rows in (
        ("a", preference),
        ("b", [{"step": r["step"], "loss": r["loss"], "lr": 1e-6, "epoch": r["step"] / 9} for r in preference]),
    ):
        paths.append(tmp_path / f"{name}.jsonl")
        paths[-1].write_text("\n".join(map(json.dumps, rows)))
    assert list(metamorphic.order_of_files(paths, tmp_path)) == []


@needs_corpus
@pytest.mark.parametrize("name", SAMPLE)
def test_the_properties_on_real_logs(name: str, tmp_path: Path) -> None:
    assert list(metamorphic.properties(CORPUS / name, tmp_path)) == []
