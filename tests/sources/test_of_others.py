"""What other people's logs hold besides plain rows: held-out scores by any name, lists of several lengths, samples."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from grpo_doctor.run import Run
from grpo_doctor.sources.aliases import resolve
from grpo_doctor.sources.kinds import is_eval

from .make import known, run_of

STEPS = range(1, 9)


def jsonl(folder: Path, rows: list[Mapping[str, object]]) -> Run:
    return run_of(folder, "log.jsonl", "\n".join(map(json.dumps, rows)))


@pytest.mark.parametrize("key", ["val/recall@1", "val/bleu", "valid/exact_match", "val/rewards_mean_of_tasks"])
def test_scores_under_val_and_valid_are_held_out(tmp_path: Path, key: str) -> None:
    rows = [{"step": i, "train/reward": i / 8} | ({key: i / 16} if i % 4 == 0 else {}) for i in STEPS]
    run = jsonl(tmp_path, rows)
    assert is_eval(key)
    assert run.steps.tolist() == list(STEPS)
    assert known(run)["eval_score"] == [None, None, None, 0.25, None, None, None, 0.5]


@pytest.mark.parametrize("beside", ["val/sequence_lengths", "val/ratio", "val/num_eos_tokens"])
def test_beside_what_its_batches_hold_open_instructs_val_is_training(tmp_path: Path, beside: str) -> None:
    run = jsonl(tmp_path, [{"step": i, "objective/scores": i / 8, beside: 9.0, "val/solved_score": 0.5} for i in STEPS])
    assert "eval_score" not in run.columns
    assert run.unread["val/solved_score"] == 8


def test_a_share_of_valid_responses_is_no_validation() -> None:
    assert [alias.field for alias in resolve("valid/rate")] == ["valid_rate"]
    assert not is_eval("valid/rate")
    assert not is_eval("valid_rate")


def test_one_line_of_verl_with_one_held_out_score_is_read(tmp_path: Path) -> None:
    run = run_of(tmp_path, "a.log", "(TaskRunner pid=7) step:30 - val-core/made/acc/mean@1:0.375\n")
    assert (run.run_type, run.steps.tolist(), known(run)) == ("rl", [30], {"eval_score": [0.375]})


LISTS = {"train_loss": [0.5] * 8, "train_reward": [i / 8 for i in STEPS]}


@pytest.mark.parametrize(
    ("more", "wanted"),
    [
        ({"val_reward": [0.25, 0.75]}, [None, None, None, 0.25, None, None, None, 0.75]),
        ({"val_reward": [0.25, 0.75], "val_steps": [2, 6]}, [None, 0.25, None, None, None, 0.75, None, None]),
        ({"steps": list(range(10, 90, 10)), "eval_score": [0.5, 1.0], "eval_steps": [10, 80]}, [0.5, *[None] * 6, 1.0]),
    ],
)
def test_a_held_out_score_in_a_shorter_list_stands_where_it_was_taken(
    tmp_path: Path, more: dict[str, list[float]], wanted: list[float | None]
) -> None:
    run = run_of(tmp_path, "history.json", json.dumps(LISTS | more))
    assert run.steps.tolist() == more.get("steps", list(STEPS))
    assert known(run)["eval_score"] == wanted
    assert known(run)["reward_mean"] == LISTS["train_reward"]


def test_lists_that_cannot_be_placed_are_named_as_unread(tmp_path: Path) -> None:
    more = {"val_reward": [0.1, 0.2, 0.3], "ema": [1.0, 2.0, 3.0, 4.0, 5.0]}
    run = run_of(tmp_path, "history.json", json.dumps(LISTS | more))
    assert "eval_score" not in run.columns
    assert run.unread == {"val_reward": 3, "ema": 5}
