"""Content of public logs other than plain rows: held-out scores by any name, lists of several lengths, samples."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from grpo_doctor import diagnose
from grpo_doctor.readers import read
from grpo_doctor.readers.aliases import resolve
from grpo_doctor.readers.row_kinds import is_eval
from grpo_doctor.run import Run

from .make import known, run_of

STEPS = range(1, 9)


def jsonl(folder: Path, rows: Sequence[Mapping[str, object]]) -> Run:
    return run_of(folder, "log.jsonl", "\n".join(map(json.dumps, rows)))


@pytest.mark.parametrize("key", ["val/recall@1", "val/bleu", "valid/exact_match", "val/rewards_mean_of_tasks"])
def test_scores_under_val_and_valid_are_held_out(tmp_path: Path, key: str) -> None:
    rows = [{"step": i, "train/reward": i / 8} | ({key: i / 16} if i % 4 == 0 else {}) for i in STEPS]
    run = jsonl(tmp_path, rows)
    assert is_eval(key)
    assert run.steps.tolist() == list(STEPS)
    assert known(run)["eval_score"] == [None, None, None, 0.25, None, None, None, 0.5]


@pytest.mark.parametrize("beside", ["val/sequence_lengths", "val/ratio", "val/num_eos_tokens"])
def test_next_to_what_its_batches_hold_open_instructs_val_is_training(tmp_path: Path, beside: str) -> None:
    run = jsonl(tmp_path, [{"step": i, "objective/scores": i / 8, beside: 9.0, "val/solved_score": 0.5} for i in STEPS])
    assert "eval_score" not in run.columns
    assert run.unread["val/solved_score"] == 8


def test_a_share_of_valid_responses_is_not_a_validation() -> None:
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
def test_a_held_out_score_in_a_shorter_list_keeps_its_steps(
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


@pytest.mark.parametrize(
    "row",
    [
        {"task_id": "t-4", "event_type": "paid", "reward": 0.25, "observation_delta": "wrong", "terminal": False},
        {"observation": "a room", "action": "look", "immediate_reward": 0.25, "advantage": 0.5},
        {"turn": 2, "action": "call", "reward": 0.25, "cumulative_reward": 0.5},
        {"policy": "greedy", "task": "easy", "total_reward": 3.5, "success_rate": 0.5},
        {"seed": 3, "success": True, "environment_reward": 1.5},
    ],
)
def test_steps_of_an_environment_and_tasks_one_by_one_are_not_training(tmp_path: Path, row: dict[str, object]) -> None:
    rows = [row | {"nth": i} for i in STEPS]
    assert jsonl(tmp_path, rows).run_type == "evaluation"
    assert jsonl(tmp_path, [{**r, "loss": 0.5} for r in rows]).run_type == "rl"


@pytest.mark.parametrize("more", [{"step": 1}, {"episode": 1}, {"advantages": [0.5, -0.5]}, {"grad_norm": 0.5}])
def test_rows_that_count_tasks_or_weight_responses_are_training(tmp_path: Path, more: dict[str, object]) -> None:
    rows = [{"task": "a", "reward": i / 8, **{k: i if v == 1 else v for k, v in more.items()}} for i in STEPS]
    assert jsonl(tmp_path, rows).run_type == "rl"


def test_a_share_below_zero_is_none(tmp_path: Path) -> None:
    run = jsonl(tmp_path, [{"step": i, "reward": i / 8, "correct": (-1) ** i} for i in STEPS])
    assert "success_rate" not in run.columns
    assert "correct is not read as success_rate, because its values are out of range" in run.notes
    run = jsonl(tmp_path, [{"step": i, "reward": i / 8, "correct": i % 2} for i in STEPS])
    assert known(run)["success_rate"] == [1, 0] * 4


def test_a_response_limit_is_a_setting_and_settings_alone_are_not_a_run(tmp_path: Path) -> None:
    config = {"training": {"num_generations": 4, "learning_rate": 1e-6, "beta": 0.04, "max_completion_length": 64}}
    run = run_of(tmp_path, "summary.json", json.dumps(config))
    assert run.run_type == "none"
    assert "response_length_max" not in run.columns
    assert run.settings["max_new_tokens"] == 64


TRL = "{{'loss': {0}, 'grad_norm': 0.5, 'reward': {1}, 'reward_std': 0.25, 'kl': 0.01, 'epoch': {0}}}\n"


def test_how_the_reward_of_one_response_is_made_up_is_not_a_row(tmp_path: Path) -> None:
    parts = 'breakdown: {"task": 0.0, "tools": 0.25, "format": 0.02, "pay": 0.5, "polite": 0.0}\n'
    text = "".join(2 * parts + TRL.format(i / 8, i / 16) for i in STEPS)
    run = run_of(tmp_path, "a.log", text)
    assert len(run) == 8
    assert known(run)["reward_mean"] == [i / 16 for i in STEPS]
    assert "valid_rate" not in run.columns


def notebook(*outputs: dict[str, object]) -> str:
    cells = [{"cell_type": "code", "source": "", "outputs": [output]} for output in outputs]
    return json.dumps({"nbformat": 4, "cells": cells})


@pytest.mark.parametrize(("off", "same"), [(0.00009, True), (0.0002, False)])
def test_the_loss_table_next_to_a_console_of_the_same_run_numbers_its_steps(
    tmp_path: Path, off: float, same: bool
) -> None:
    cells = "".join(f"<tr><td>{10 * i}</td><td>{i / 80_000 + off}</td></tr>" for i in STEPS)
    table = f"<table><tr><th>Step</th><th>Training Loss</th></tr>{cells}</table>"
    console = "".join(TRL.format(i / 80_000, i / 16) for i in STEPS)
    path = tmp_path / "a.ipynb"
    path.write_text(notebook({"data": {"text/html": table}}, {"text": console}), "utf-8")
    found = read(path)
    assert len(found) == 1
    assert any("supervised training of 8 rows" in note for note in found[0].notes) is not same
    if same:
        assert found[0].steps.tolist() == [10 * i for i in STEPS]
        assert known(found[0])["reward_mean"] == [i / 16 for i in STEPS]


@pytest.mark.parametrize(
    "rows",
    [
        [{"completion": {"text": "a b", "token_ids": [1]}, "reward": {"format": 1.0, "reward": 0.5}}] * 8,
        [
            {"type": "settings", "num_generations": 4},
            *[{"type": "sample", "prompt": "a", "completion": "b", "reward_scores": {"length": 0.5}}] * 8,
        ],
    ],
)
def test_completions_whose_rewards_lie_in_mappings_are_one_step_of_samples(
    tmp_path: Path, rows: list[Mapping[str, object]]
) -> None:
    run = jsonl(tmp_path, rows)
    assert (run.format, len(run), known(run)["reward_mean"]) == ("completions", 1, [0.5])


def test_rollouts_whose_first_row_is_longer_than_the_head_are_read(tmp_path: Path) -> None:
    rows = [{"step": n, "prompt": "a", "completion": "b" * 100_000, "reward": n % 2} for n in range(1, 5)]
    run = jsonl(tmp_path, rows)
    assert (run.format, run.run_type, known(run)["reward_mean"]) == ("completions", "rl", [1, 0, 1, 0])


def test_one_document_of_rollouts_is_read_over_several_lines_and_in_one(tmp_path: Path) -> None:
    samples = [{"input": "a", "output": "b", "score": n % 2, "step": n} for n in range(1, 5)]
    for indent in (None, 2):
        path = tmp_path / "eval.json"
        path.write_text(json.dumps({"version": 2, "samples": samples}, indent=indent), encoding="utf-8")
        (run,) = read(path)
        assert (run.format, len(run)) == ("completions", 4)


def test_a_document_without_rollouts_is_read_as_a_log(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    rows = [{"step": n, "reward": n / 10, "prompt": "a", "response": None} for n in range(1, 9)]
    path.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    (run,) = read(path)
    assert (run.format, len(run)) == ("json", 8)


def test_sentences_in_a_table_of_other_things_are_not_metrics(tmp_path: Path) -> None:
    said = '"The loss 0.5 and the reward 0.25 came, accuracy 0.75\n at step 3"'
    rows = "".join(f"{n},{said},made\n" for n in ("one", "two", "three"))
    run = run_of(tmp_path, "questions.csv", f",Question 1,Answer of the model\n{rows}")
    assert (run.run_type, len(run)) == ("none", 0)
    assert {"Question 1", "Answer of the model"} <= run.unread.keys()
    lines = "".join(f"step {i}, loss 0.5, reward 0.{i}\n" for i in STEPS)
    assert len(run_of(tmp_path, "a.log", lines)) == 8


@pytest.mark.parametrize(
    ("key", "field"),
    [
        ("rollout_reward_mean", "reward_mean"),
        ("rollout_reward_std", "reward_std"),
        ("Batch reward stats - min", "reward_min"),
        ("train_clip_fraction", "clip_fraction"),
        ("Percentage of correct examples", "success_rate"),
        ("ppo_stats/objective/kl", "kl_sequence"),
        ("ppo_stats/ppo/mean_scores", "reward_mean"),
        ("ppo_stats/objective/entropy", ""),
    ],
)
def test_names_below_a_word_or_with_one_more(key: str, field: str) -> None:
    assert [alias.field for alias in resolve(key.replace(" -", ""))] == [field] * bool(field)


@pytest.mark.parametrize(("taken", "kept"), [(6, 6), (5, 60)])
def test_a_held_out_score_of_0_between_regular_evaluations_was_not_taken(tmp_path: Path, taken: int, kept: int) -> None:
    """With six or more values and equal numbers of rows in between, chance is excluded; one of them may be 0."""
    at = {10 * i for i in range(1, taken + 1)}
    rows = [{"step": i, "reward": i / 64, "val_mean_reward": 0.25 if i in at else 0.0} for i in range(1, 61)]
    run = jsonl(tmp_path, rows)
    assert sum(value is not None for value in known(run)["eval_score"]) == kept


def test_a_cell_that_overwrites_its_output_does_not_break_the_notebook(tmp_path: Path) -> None:
    console = "".join(TRL.format(i / 8, i / 16) for i in STEPS)
    path = tmp_path / "a.ipynb"
    path.write_text(notebook({"text": "\b" * 400 + "done\b\b"}, {"text": console}), "utf-8")
    assert len(read(path)[0]) == 8


PARTS = "Metrics: {'format_reward': 1.0, 'answer_reward': 0.0, 'reward': 0.0}\n"


def test_reads_a_console_between_rewards_of_single_responses(tmp_path: Path) -> None:
    text = ""
    for i in range(12):
        text += f"GRPO Iteration {i}, Epoch 0, Training\n[MEM before] alloc=3.5\n{PARTS}"
        text += f"Percentage of correct examples:  {i / 16}\n"
        if i % 4 == 3:
            text += f"GRPO Iteration {i}, Epoch 0, Evaluating...\nused 3 GB\nPercentage of correct examples: {i / 32}\n"
    run = run_of(tmp_path, "a.log", text)
    assert (run.run_type, run.steps.tolist()) == ("rl", list(range(12)))
    assert known(run)["success_rate"] == [i / 16 for i in range(12)]
    assert known(run)["eval_score"] == [i / 32 if i % 4 == 3 else None for i in range(12)]


def test_an_announced_block_ends_at_the_first_other_line(tmp_path: Path) -> None:
    block = "Evaluating...\nloading 3 files\naccuracy: {0}\nreturn: {0}\nsaved 1 file\nmean reward: {1} loss: 0.5\n\n"
    text = "".join(f"Step {i}\n" + block.format(i / 32, i / 8) for i in STEPS)
    run = run_of(tmp_path, "a.log", text)
    assert known(run)["eval_score"] == [i / 32 for i in STEPS]
    assert known(run)["reward_mean"] == [i / 8 for i in STEPS]


@pytest.mark.parametrize(("before", "spread"), [("", True), ("Here are a few ", False), ("sample ", False)])
def test_the_spread_of_some_rewards_is_not_that_of_the_step(tmp_path: Path, before: str, spread: bool) -> None:
    text = "".join(f"step {i} loss: 0.5\n{before}rewards: [0.0, 1.0, {i}.0]\n" for i in STEPS)
    run = run_of(tmp_path, "a.log", text)
    assert ("reward_std" in run.columns) is spread


def test_a_line_of_named_values_above_its_step_is_metrics(tmp_path: Path) -> None:
    text = ""
    for i in STEPS:
        text += f"The reward is 7 in this story.\nreward is {i / 16}\nreward is {3 * i / 16}\n"
        text += f"policy_loss is -0.5 and kl is {i / 64}\n[step {25 * i}] acc={i / 8}\n"
    run = run_of(tmp_path, "a.log", text)
    assert (run.run_type, run.steps.tolist()) == ("rl", [25 * i for i in STEPS])
    assert known(run)["reward_mean"] == [i / 8 for i in STEPS]
    assert known(run)["kl"] == [i / 64 for i in STEPS]


def test_lines_after_the_last_step_are_of_the_step_above(tmp_path: Path) -> None:
    text = "".join(f"[step {i}] acc={i / 8}\nreward is {i / 16}\nreward is {i / 16}\n" for i in STEPS)
    assert known(run_of(tmp_path, "a.log", text))["reward_mean"] == [i / 16 for i in STEPS]


@pytest.mark.parametrize(("more", "name", "rows"), [(0, "a.md", 8), (1, "a.md", 0), (1, "a.log", 8)])
def test_a_document_about_a_training_is_not_a_log(tmp_path: Path, more: int, name: str, rows: int) -> None:
    """More than four lines of text per line of metrics, between the first and the last of these."""
    said = "The agent sees what it did, and why.\n\n"
    blocks = [f"step {i} reward: {i / 8}\n" for i in STEPS]
    text = 9 * said + (3 * said).join(blocks[:-1]) + (6 + more) * said + blocks[-1] + 9 * said
    run = run_of(tmp_path, name, text)
    assert len(run) == rows
    if not rows:
        assert run.notes[0] == "numbers in prose are not a log; extract the log from the document"


VERL = (
    "step:{0} - actor/entropy:0.5 - critic/score/mean:0.{0}75 - response_length/mean:9.5 - val-core/made/acc/mean@1:0.5"
)


@pytest.mark.parametrize(
    ("cut", "score", "torn"),
    [
        ("75 - resp", None, True),
        (" - response_length", None, True),
        (":9.5 - val", 0.875, False),
        (" - val", 0.875, False),
    ],
)
def test_a_line_of_verl_that_breaks_off_gives_no_cut_number(
    tmp_path: Path, cut: str, score: float | None, torn: bool
) -> None:
    """The score of the last step is 0.875, of which ``0.8`` may be all that was written."""
    lines = [VERL.format(i) for i in STEPS]
    text = "\n".join(lines[:-1]) + "\n" + lines[-1].partition(cut)[0]
    run = run_of(tmp_path, "a.log", text)
    assert known(run)["reward_mean"][-1] == score
    said = "line 8 is incomplete: its last value and everything after it were not read"
    assert (said in run.notes) is torn


@pytest.mark.parametrize(
    ("key", "field"),
    [
        ("Grad", "grad_norm"),
        ("gradients", ""),
        ("r_total", "reward_mean"),
        ("overall_mean_reward", "reward_mean"),
        ("em", "success_rate"),
        ("eval_em", "eval_score"),
        ("pref_acc", "success_rate"),
        ("format_valid_ratio", "valid_rate"),
        ("rl_loss", "loss"),
    ],
)
def test_short_names_of_hand_written_trainers(key: str, field: str) -> None:
    assert "".join(alias.field for alias in resolve(key)) == field


@pytest.mark.parametrize("line", ["loss=0.{i} | margins=0.{i} | acc=0.5", "loss=0.{i} pref_acc=0.5 gap=0.{i}"])
def test_margins_and_the_accuracy_of_preferences_are_of_pairs(tmp_path: Path, line: str) -> None:
    run = run_of(tmp_path, "dpo.txt", "".join(f"Step {i} | {line.format(i=i)}\n" for i in range(1, 7)))
    assert (run.run_type, len(run)) == ("preference", 6)


def test_a_row_for_each_of_several_settings_is_an_evaluation(tmp_path: Path) -> None:
    rows = "".join(f"Model A | beta=0.{i} => win rate: 5{i}.5%\n" for i in range(1, 10)) * 2
    assert run_of(tmp_path, "sweep.txt", rows).run_type == "evaluation"
    steps = "".join(f"step {i} beta=0.1 reward: 0.{i}\n" for i in range(1, 10))
    assert run_of(tmp_path, "train.txt", steps).run_type == "rl"


PRINTED = {
    "bold, as in Markdown": "- **Step {i}**: mean reward **0.{i}**, KL `0.01`\n",
    "types of numpy and torch": "step {i} reward np.float32(0.{i}) kl tensor(0.0100, device='cuda:0')\n",
    "Chinese": "第 {i} 步 奖励均值 0.{i} KL散度 0.01\n",
}


@pytest.mark.parametrize("line", PRINTED.values(), ids=PRINTED.keys())
def test_numbers_within_marks_and_types(tmp_path: Path, line: str) -> None:
    columns = known(run_of(tmp_path, "a.log", "".join(line.format(i=i) for i in range(1, 7))))
    assert columns == {"reward_mean": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6], "kl": [0.01] * 6}


@pytest.mark.parametrize(
    ("key", "field"),
    [
        ("截断比例", "truncated_rate"),
        ("验证集准确率", "eval_score"),
        ("成功率", "success_rate"),
        ("応答長", "response_length_mean"),
        ("勾配ノルム", "grad_norm"),
        ("그래디언트 노름", "grad_norm"),
        ("검증 손실", "eval_loss"),
    ],
)
def test_names_in_languages_without_spaces(key: str, field: str) -> None:
    assert [alias.field for alias in resolve(key)] == [field]


def test_an_epoch_that_is_summed_up_below_its_batches_parts_no_run(tmp_path: Path) -> None:
    batches = "".join(f"  Batch {b}/8: loss=0.{9 - b} reward=0.{b}\n" for b in range(1, 9))
    text = "".join(f"Epoch {e}/3\n{batches}Epoch {e} avg reward: 0.4\n" for e in (1, 2, 3))
    assert run_of(tmp_path, "a.log", text).steps[-1] == 24


TEXT = "On an island, knights always tell the truth, and knaves always lie. "
"""67 characters."""


@pytest.mark.parametrize(
    ("row", "texts"),
    [
        ({"quiz": TEXT, "label": "a"}, "quiz"),
        ({"quiz": TEXT[:61], "label": "a"}, "quiz"),
        ({"quiz": TEXT[:60], "label": "a"}, None),
        ({"id": 3, "messages": [{"role": "user", "content": "Hello"}]}, "messages"),
        ({"step": 3, "quiz": TEXT, "reward": 0.5}, None),
    ],
)
@pytest.mark.parametrize("whole", [True, False])
def test_a_data_set_is_not_told_to_log_its_reward(tmp_path: Path, row: dict[str, Any], texts: str, whole: bool) -> None:
    rows = [row] * 3
    text = json.dumps(rows) if whole else "\n".join(map(json.dumps, rows))
    said = diagnose(run_of(tmp_path, "train.json" if whole else "train.jsonl", text)).headline
    told = f"The file has texts ({texts}) like a data set, and no metrics. Pass the training log."
    assert (said == told) is (texts is not None)


def test_a_kl_that_adds_up_to_the_loss_includes_its_coefficient(tmp_path: Path) -> None:
    def read_kl(scale: float, coefficient: str = "", rows: int = 5) -> Run:
        lines = [
            f"step {i} | loss {0.2 + scale * 0.01 * i:.5f} | pg 0.2 | kl {0.01 * i:.5f}" for i in range(1, rows + 1)
        ]
        return run_of(tmp_path, "train.log", "\n".join([coefficient, *lines]))

    summed = read_kl(1.0)
    assert summed.columns.keys() >= {"kl_loss", "policy_loss"}
    assert "kl" not in summed.columns
    assert "the KL includes its coefficient, because the loss is the sum of policy loss and KL" in summed.notes
    assert "kl" in read_kl(1.0, rows=4).columns
    assert "kl" in read_kl(0.1).columns
    assert "kl" in read_kl(1.0, "kl_coef: 1.0").columns
