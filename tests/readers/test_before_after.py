"""Scores that are printed once before and once after a training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from grpo_doctor.readers import read

from .make import known, run_of

ROWS = [f"{{'loss': 0.1, 'grad_norm': 0.5, 'reward': 0.{i}, 'epoch': 0.{i}}}" for i in range(1, 7)]
SCORES = [0.31, None, None, None, None, 0.47]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Accuracy before training: 0.31", "Accuracy after training: 0.47"),
        ("Accuracy before GRPO: 31.0%", "Accuracy after GRPO: 47.0%"),
        ("[BEFORE training] avg_reward=0.31  steps=7", "[AFTER training] avg_reward=0.47  steps=9"),
        ("Baseline accuracy: 31/100", "Final accuracy: 47/100"),
        ("Untrained model accuracy: 0.31", "Trained model accuracy: 0.47"),
        ("initial_reward: 0.31", "final_reward: 0.47"),
        ("", "Accuracy before training: 0.31, after training: 0.47"),
        ("", "Mean reward before RL: 0.31 -> after RL: 0.47"),
    ],
)
def test_two_scores_are_evaluations_of_the_training_between_them(tmp_path: Path, before: str, after: str) -> None:
    run = run_of(tmp_path, "train.log", "\n".join([before, *ROWS, after]))
    assert known(run)["eval_score"] == SCORES
    assert run.notes[-1].endswith("0.31 before and 0.47 after the training")


@pytest.mark.parametrize(
    "text",
    [
        "Accuracy before training: 0.31",  # no score after it
        "Accuracy before training: 0.31\nReward after training: 0.47",  # another score
        "Turns before training: 3\nTurns after training: 4",  # not a score
    ],
)
def test_other_numbers_are_not_compared(tmp_path: Path, text: str) -> None:
    assert "eval_score" not in run_of(tmp_path, "train.log", "\n".join([*ROWS, text])).columns


@pytest.mark.parametrize(("times", "compared"), [(3, True), (4, False)])
def test_scores_that_recur_are_not_a_comparison(tmp_path: Path, times: int, compared: bool) -> None:
    lines = ["Baseline accuracy: 0.31", "Final accuracy: 0.47"] * times
    assert ("eval_score" in run_of(tmp_path, "train.log", "\n".join([*ROWS, *lines])).columns) == compared


def test_held_out_scores_of_the_training_are_kept(tmp_path: Path) -> None:
    rows = [row.replace("'epoch'", "'eval_reward': 0.2, 'epoch'") for row in ROWS]
    lines = ["Accuracy before training: 0.31", *rows, "Accuracy after training: 0.47"]
    run = run_of(tmp_path, "train.log", "\n".join(lines))
    assert known(run)["eval_score"] == [0.2] * 6
    assert run.notes[-1] == "evaluated separately: Accuracy 0.31 before and 0.47 after the training"


def test_scores_of_a_general_console_are_not_rows(tmp_path: Path) -> None:
    lines = ["[BEFORE training] avg_reward=0.31", *(f"step {i} reward: 0.{i} loss: 0.5" for i in range(1, 7))]
    run = run_of(tmp_path, "train.log", "\n".join([*lines, "[AFTER training] avg_reward=0.47"]))
    assert (len(run), known(run)["eval_score"]) == (6, SCORES)


def notebook(*outputs: Any) -> str:
    cells = [{"cell_type": "code", "source": "run()", "outputs": [output]} for output in outputs]
    return json.dumps({"nbformat": 4, "cells": cells})


def test_cells_of_a_notebook_may_print_the_scores(tmp_path: Path) -> None:
    """TRL's PPO notebook shows the means of a table as a pandas series."""
    training = {"output_type": "stream", "text": "\n".join(ROWS)}
    means = "rewards (before)    0.31\nrewards (after)     0.47\ndtype: float64"
    shown = {"output_type": "display_data", "data": {"text/plain": means}}
    run = run_of(tmp_path, "a.ipynb", notebook(training, shown))
    assert known(run)["eval_score"] == SCORES


def test_a_notebook_without_rows_names_the_scores(tmp_path: Path) -> None:
    shown = {"output_type": "stream", "text": "Baseline accuracy: 0.31\nTrained accuracy: 0.47"}
    (tmp_path / "a.ipynb").write_text(notebook(shown))
    (run,) = read(tmp_path / "a.ipynb")
    assert len(run) == 0
    assert run.notes[-1] == "evaluated separately: accuracy 0.31 before and 0.47 after the training"
