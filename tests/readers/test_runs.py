"""Which rows are steps, and which belong to another run: phases, restarts, sweeps, processes, and progress bars without
progress."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from grpo_doctor.cli import app
from grpo_doctor.readers import read
from grpo_doctor.run import Run


def runs(folder: Path, name: str, text: str) -> list[Run]:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return read(path)


def row(step: int, per_epoch: int = 100, **more: Any) -> str:
    return str({"loss": 0.5, "grad_norm": 1.0, **more, "epoch": round(step / per_epoch, 4)})


def bar(at: int, of: int) -> str:
    return f"\r{100 * at // of:3d}%|####      | {at}/{of} [00:05<00:05,  1.9it/s]"


def grpo(step: int, per_epoch: int = 100) -> str:
    return row(step, per_epoch, reward=0.1 + 0.002 * step, reward_std=0.2)


SUMMARY = "{'train_runtime': 12.5, 'train_samples_per_second': 3.2, 'train_steps_per_second': 0.5, 'train_loss': 0.4, 'epoch': 1.0}"


def test_the_summary_of_a_training_is_not_a_step(tmp_path: Path) -> None:
    text = "".join(f"{bar(i, 20)}\n{grpo(i)}\n" for i in range(1, 21)) + SUMMARY + "\n"
    (run,) = runs(tmp_path, "train.log", text)
    assert run.steps.tolist() == list(range(1, 21))
    lines = [json.dumps({"step": i, "reward": 0.1 * i, "loss": 0.2}) for i in range(1, 9)]
    lines.append(json.dumps({"step": 8, "train_runtime": 12.5, "train_loss": 0.4}))
    (run,) = runs(tmp_path, "train.jsonl", "\n".join(lines))
    assert (len(run), run.columns["loss"].tolist()) == (8, [0.2] * 8)


def test_grpo_after_a_supervised_phase_is_judged_and_the_phase_is_one_line(tmp_path: Path) -> None:
    text = "".join(f"{bar(i, 17)}\n{row(i)}\n" for i in range(1, 18)) + SUMMARY + "\n"
    text += "".join(f"{bar(i, 214)}\n{grpo(i, 300)}\n" for i in range(1, 215)) + SUMMARY + "\n"
    (rl,) = runs(tmp_path, "train.log", text)
    assert "lines 2-34: supervised training of 17 rows, loss 0.5 to 0.5, not judged here" in rl.notes
    assert (rl.run_type, rl.steps.tolist()) == ("rl", list(range(1, 215)))
    assert rl.source.endswith(f"(run 2 of 2, lines {rl.lines[0]}-{rl.lines[-1]})")


@pytest.mark.parametrize(("restarts", "count"), [(False, 1), (True, 2)])
def test_a_summary_ends_a_run_if_the_epochs_or_the_tokens_restart(tmp_path: Path, restarts: bool, count: int) -> None:
    """The second training has longer epochs, so its epochs continue those of the first training."""
    rows = [row(step, 1000, reward=0.1, num_tokens=100 * step) for step in range(1, 21)]
    later = [row(step, 500, reward=0.2, num_tokens=100 * step - 2000 * restarts) for step in range(21, 41)]
    text = "\n".join([*rows, SUMMARY, *later]) + "\n"
    assert [len(run) for run in runs(tmp_path, "train.log", text)] == [40 // count] * count


def test_judges_the_rl_stage_and_lists_the_others(tmp_path: Path) -> None:
    stages: list[dict[str, Any]] = [
        {"loss": 2.0, "mean_token_accuracy": 0.4},
        {"loss": 0.69, "rewards/chosen": 0.5, "rewards/rejected": -0.5, "rewards/margins": 1.0},
        {"loss": 0.01, "reward": 0.4, "reward_std": 0.3, "kl": 0.02},
    ]
    text = "".join(json.dumps({"step": i, **stage}) + "\n" for stage in stages for i in range(1, 21))
    found = runs(tmp_path, "stages.jsonl", text)
    assert [(run.run_type, len(run)) for run in found] == [("rl", 20)]
    assert [note for note in found[0].notes if "not judged here" in note] == [
        "lines 1-20: supervised training of 20 rows, loss 2 to 2, not judged here",
        "lines 21-40: preference training of 20 rows, loss 0.69 to 0.69, not judged here",
    ]


def test_an_unread_series_without_a_finite_value_is_named(tmp_path: Path) -> None:
    rows = [{"step": i, "loss": 0.6, "rewards/margins": 0.1, "logits/chosen": math.nan} for i in range(1, 4)]
    (run,) = runs(tmp_path, "dpo.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    assert (
        "not read, because the first value is not finite (the loss is finite on all rows): logits/chosen" in run.notes
    )
    more = [{"step": i, "loss": 0.6, **{f"made/up{n}": math.inf for n in range(8)}} for i in range(1, 4)]
    (run,) = runs(tmp_path, "more.jsonl", "".join(json.dumps(row) + "\n" for row in more))
    assert run.notes[-1].endswith("made/up4, made/up5 and 2 more")


def test_rows_of_alternating_kinds_are_not_one_series(tmp_path: Path) -> None:
    kinds = [
        {"step": i, "type": kind, "reward": r, "loss": 0.1} for i in range(1, 9) for kind, r in (("a", i), ("b", 0))
    ]
    (run,) = runs(tmp_path, "kinds.jsonl", "".join(json.dumps(row) + "\n" for row in kinds))
    assert run.columns["reward_mean"].tolist() == list(range(1, 9))


def test_a_finished_bar_and_a_new_total_are_a_new_phase(tmp_path: Path) -> None:
    text = "".join(f"{bar(i, 17)}\n{row(i)}\n" for i in range(1, 18))
    text += bar(0, 30) + "".join(f"{bar(i, 30)}\n{grpo(i, 300)}\n" for i in range(1, 31))
    (run,) = runs(tmp_path, "train.log", text)
    assert len(run) == 30
    assert any("supervised training of 17 rows" in note for note in run.notes)


@pytest.mark.parametrize("position", [0, 1, 69])
def test_rows_on_a_bar_that_does_not_move_are_steps(tmp_path: Path, position: int) -> None:
    text = bar(position, 69) + "\n" + "".join(f"{grpo(i)}\n" for i in range(1, 70))
    (run,) = runs(tmp_path, "train.log", text)
    assert (len(run), run.steps[-1]) == (69, 69)


def test_rows_on_a_still_bar_are_equal_parts_of_the_steps_at_its_end(tmp_path: Path) -> None:
    text = bar(0, 1000) + "\n" + "".join(f"{grpo(i)}\n" for i in range(1, 4)) + bar(31, 1000) + "Traceback\n"
    (run,) = runs(tmp_path, "train.log", text)
    assert run.steps.tolist() == [10, 20, 30]
    assert run.settings["max_steps"] == 1000


def test_bars_after_the_text_of_a_completion_count(tmp_path: Path) -> None:
    text = "".join(
        f"{'The answer is 7.' if i % 3 == 0 else ''}{bar(i, 60)[1:] if i % 3 == 0 else bar(i, 60)}\n{grpo(i)}\n"
        for i in range(1, 61)
    )
    (run,) = runs(tmp_path, "train.log", text)
    assert run.steps.tolist() == list(range(1, 61))


@pytest.mark.parametrize("suffix", ["log", "jsonl", "csv"])
def test_a_counter_that_begins_again_is_another_run(tmp_path: Path, suffix: str) -> None:
    rows = [{"step": i, "reward": 0.1 * run + 0.01 * i, "loss": 0.5} for run in range(3) for i in range(1, 21)]
    text = {
        "log": "".join(f"step {r['step']} | reward {r['reward']:.3f} | loss {r['loss']}\n" for r in rows),
        "jsonl": "\n".join(map(json.dumps, rows)),
        "csv": "step,reward,loss\n" + "\n".join(f"{r['step']},{r['reward']},{r['loss']}" for r in rows),
    }[suffix]
    found = runs(tmp_path, f"x.{suffix}", text)
    assert [run.steps.tolist() for run in found] == [list(range(1, 21))] * 3
    assert [int(run.lines[0]) for run in found][1] in (21, 22)


def test_a_weaker_counter_that_begins_again_is_another_run(tmp_path: Path) -> None:
    rows = [{"batch_index": i, "reward_mean": i / 100, "reward_std": 0.1} for size in (7, 6, 30) for i in range(size)]
    found = runs(tmp_path, "x.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    assert [run.steps.tolist() for run in found] == [[*range(7)], [*range(6)], [*range(30)]]


def test_batches_of_periods_with_the_same_length_are_one_run(tmp_path: Path) -> None:
    rows = [{"batch_index": i, "reward_mean": i / 100, "reward_std": 0.1} for size in (9, 9, 5) for i in range(size)]
    (run,) = runs(tmp_path, "x.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    assert len(run) == 23


def test_a_run_that_is_resumed_stays_one(tmp_path: Path) -> None:
    steps = [*range(1, 31), *range(21, 61)]
    (run,) = runs(tmp_path, "x.jsonl", "\n".join(json.dumps({"step": i, "reward": 0.01 * i}) for i in steps))
    assert run.steps.tolist() == steps
    assert [e.kind for events in run.events.values() for e in events] == ["restart"]


def test_the_first_step_of_short_runs_in_one_file_is_not_merged(tmp_path: Path) -> None:
    steps = [1, 1, 1, 1, 2, 1, 2, 1, 2, 1, 2]
    rows = [json.dumps({"step": at, "reward": i / 10}) for i, at in enumerate(steps)]
    (run,) = runs(tmp_path, "x.jsonl", "\n".join(rows))
    assert run.steps.tolist() == steps
    resumed = [0, 5, 10, 15, 0, 0, 5, 5, 10, 15, 20, 25]
    rows = [json.dumps({"iteration": at, "mean_reward": i / 10}) for i, at in enumerate(resumed)]
    (run,) = runs(tmp_path, "z.jsonl", "\n".join(rows))
    assert run.steps.tolist() == resumed
    every = [json.dumps({"step": i // 2, "loss": i / 10}) for i in range(20)]
    (run,) = runs(tmp_path, "y.jsonl", "\n".join(every))
    assert run.steps.tolist() == list(range(10))


def test_steps_that_begin_again_with_each_iteration_are_one_run(tmp_path: Path) -> None:
    rows = [{"iteration": k, "step": i, "reward": 0.1 * k + 0.01 * i} for k in range(1, 4) for i in range(1, 11)]
    (run,) = runs(tmp_path, "x.jsonl", "\n".join(map(json.dumps, rows)))
    assert len(run) == 30


def test_processes_that_print_between_each_other_are_runs(tmp_path: Path) -> None:
    text = "".join(
        f"(train_{name}, pid={100 + k}) {grpo(i + k)}\n" for i in range(1, 21) for k, name in enumerate("abcd")
    )  # fmt: skip
    assert [len(run) for run in runs(tmp_path, "ray.log", text)] == [20] * 4
    text = "".join(
        f"(TaskRunner pid={7 + k}) step:{i} - critic/score/mean:{0.1 * k} - actor/grad_norm:0.{i}\n"
        for i in range(1, 21)
        for k in range(3)
    )
    assert [len(run) for run in runs(tmp_path, "verl.log", text)] == [20] * 3


def test_each_run_has_the_settings_that_were_printed_for_it(tmp_path: Path) -> None:
    text = ""
    for size in (4, 8):
        text += str({"num_generations": size, "output_dir": "out"}) + "\n"
        text += "".join(f"{bar(i, 10)}\n{grpo(i)}\n" for i in range(1, 11)) + SUMMARY + "\n"
    assert [run.settings["group_size"] for run in runs(tmp_path, "sweep.log", text)] == [4, 8]


@pytest.mark.parametrize("column", ["lambda", "seed", "kl_weight_sweep"])
def test_any_column_may_name_the_runs_of_a_table(tmp_path: Path, column: str) -> None:
    text = f"{column},step,reward,loss\n" + "".join(
        f"{value},{i},{0.01 * i + value},0.5\n" for i in range(1, 21) for value in (0.1, 0.5, 1.0)
    )
    assert [len(run) for run in runs(tmp_path, "sweep.csv", text)] == [20] * 3


def test_a_bar_that_is_printed_less_often_than_rows_is_a_lower_bound_of_their_steps(tmp_path: Path) -> None:
    """The bar is printed at every checkpoint, after the rows of the 25 steps before it."""
    text, saved = "", 0
    for step in range(10, 301, 10):
        if (step - 1) // 25 * 25 > saved:
            saved = (step - 1) // 25 * 25
            text += f"{saved / 3:3.0f}%|###  | {saved}/300 [01:20<02:00,  3.1s/it] Saving model checkpoint\n"
        text += grpo(step, 280) + "\n"
    for end, steps in (("100%|#####| 300/300 [16:00<00:00,  3.1s/it]\n", [10, 20, 300]), ("", [5, 10, 275])):
        (run,) = runs(tmp_path, "train.log", text + end)
        assert (len(run), [*run.steps[:2], run.steps[-1]]) == (30, steps)


def test_a_name_with_one_row_and_a_repeated_name_are_separate_runs(tmp_path: Path) -> None:
    told = [("none", 6), ("teacher", 1), ("dots", 6), ("none", 6)]
    text = "condition,step,accuracy\n" + "".join(
        f"{name},{10 * i},{0.1 * i + at / 100}\n" for at, (name, rows) in enumerate(told) for i in range(rows)
    )
    found = [(run.source.removeprefix(str(tmp_path)), len(run)) for run in runs(tmp_path, "results.csv", text)]
    of_none = [(f"/results.csv (none, run {i} of 2)", 6) for i in (1, 2)]
    assert found == [*of_none, ("/results.csv (teacher)", 1), ("/results.csv (dots)", 6)]


def test_lines_that_stand_above_the_step_that_they_belong_to(tmp_path: Path) -> None:
    text = "".join(
        f"Average Reward: {i / 100}\nIteration 1/1, Step {i}/50, GRPO iter 1/1, loss: 0.1\n" for i in range(1, 51)
    )
    (run,) = runs(tmp_path, "train.log", text)
    assert run.columns["reward_mean"].tolist() == [i / 100 for i in range(1, 51)]


def test_bars_of_the_groups_within_a_step_are_not_steps(tmp_path: Path) -> None:
    text = "".join(
        "".join(f"Iter {i} groups: 5%|5    | {k}/20 [00:07<02:30, loss=-0.1, mean_r=0.9]\n" for k in range(1, 21))
        + f"INFO - Iter {i} | loss=0.1 | reward mean={i / 100} std=0.2\n"
        for i in range(1, 31)
    )
    (run,) = runs(tmp_path, "train.log", text)
    assert run.columns["reward_mean"].tolist() == [i / 100 for i in range(1, 31)]


@pytest.mark.parametrize("mark", ["_", ".", ":", " / "])
def test_a_table_may_part_the_words_of_its_columns_otherwise(tmp_path: Path, mark: str) -> None:
    head = ["step", *(key.replace("/", mark) for key in ("critic/score/mean", "actor/grad_norm", "actor/ppo_kl"))]
    text = ",".join(head) + "\n" + "\n".join(f"{i},0.{i},1.{i},0.0" for i in range(1, 9))
    (run,) = runs(tmp_path, "verl.csv", text)
    assert set(run.columns) == {"reward_mean", "grad_norm"}


@pytest.mark.parametrize("word", ["2", "x.jsonl (run 2 of 2, lines 21-40)"])
def test_one_of_several_runs_is_picked_by_its_number_or_name(tmp_path: Path, word: str) -> None:
    rows = [{"step": i, "reward": 0.1 * run + 0.01 * i, "loss": 0.5} for run in range(2) for i in range(1, 21)]
    path = tmp_path / "x.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    shown = CliRunner().invoke(app, ["analyze", str(path)]).stdout
    assert "x.jsonl (run 2 of 2, lines 21-40)\n" in shown, "the name in the list of several runs"
    picked = CliRunner().invoke(app, ["analyze", str(path), "--run", word, "-f", "json"])
    assert [run["source"] for run in json.loads(picked.stdout)["runs"]] == [f"{path} (run 2 of 2, lines 21-40)"]
    converted = CliRunner().invoke(app, ["convert", str(path), "-", "--run", word])
    assert json.loads(converted.stdout.splitlines()[0])["reward_mean"] == pytest.approx(0.11)
    names = "x.jsonl (run 1 of 2, lines 1-20); x.jsonl (run 2 of 2, lines 21-40)"
    wrong = {("analyze", "--run", "3"): "3", ("convert", "--run", "x.txt"): "x.txt", ("convert",): "NUMBER or NAME"}
    for (command, *options), said in wrong.items():
        ended = CliRunner().invoke(app, [command, str(path), *options])
        assert ended.exit_code == 2
        assert ended.stderr == f"grpo-doctor: --run {said}: the input has 2 runs: {names}\n"


def test_lines_of_one_response_are_not_steps(tmp_path: Path) -> None:
    text = "k_samples: 8\n" + "".join(
        f"Sample: K=1, Reward=0.5\nCompletion 3: reward=0.9\nStep {i}: mean_reward={i / 100} loss=0.2\n"
        for i in range(1, 31)
    )
    (run,) = runs(tmp_path, "train.log", text)
    assert run.columns["reward_mean"].tolist() == [i / 100 for i in range(1, 31)]
    assert run.settings["group_size"] == 8


def test_a_colon_within_a_name_is_part_of_it(tmp_path: Path) -> None:
    text = "".join(f"step {i} loss:sum=0.5 reward/mean=0.{i} kl=0.01\n" for i in range(10, 30))
    (run,) = runs(tmp_path, "train.log", text)
    assert (set(run.columns), list(run.unread)) == ({"reward_mean", "kl"}, ["loss:sum"])


def test_a_step_that_is_not_yet_whole_does_not_undo_the_means_of_those_before(tmp_path: Path) -> None:
    """Each step has four updates; the log, cut at any line, gives their mean; the last step has the written part."""
    rows = [{"step": 1 + i // 4, "reward": float(i), "loss": 0.5} for i in range(12)]
    lines = [json.dumps(row) + "\n" for row in rows]
    for end in (9, 10, 12):
        (run,) = runs(tmp_path, "metrics.jsonl", "".join(lines[:end]))
        assert run.columns["reward_mean"].tolist() == [1.5, 5.5, sum(range(8, end)) / (end - 8)]


@pytest.mark.parametrize(
    ("epochs", "steps"),
    [
        ([0.41, 0.42], [41, 42]),
        ([0.07, 0.08, 0.09], [7, 8, 9]),
        ([0.02, 0.05, 0.07], [1, 2, 3]),  # rounded, from the start
        ([0.05, 0.06], [1, 2]),
        ([1.0, 1.25], [1, 2]),
        ([0.41, 0.42, 0.01], [1, 2, 3]),
    ],
)
def test_an_excerpt_is_counted_from_where_its_epochs_begin(
    tmp_path: Path, epochs: list[float], steps: list[int]
) -> None:
    text = "".join(f"{{'loss': 0.1, 'reward': 0.5, 'kl': 0.01, 'epoch': {epoch}}}\n" for epoch in epochs)
    assert runs(tmp_path, "x.log", text)[0].steps.tolist() == steps


@pytest.mark.parametrize(
    ("losses", "beside", "kept"),
    [
        (["NaN", "NaN"], ["1.5", "1.2"], False),
        (["NaN", "NaN"], ["1.5", "NaN"], True),
        (["NaN", "NaN"], ["1.5", "0"], True),
        (["NaN"], ["1.5"], True),
        (["0.5", "NaN", "NaN"], ["1.5", "1.2", "1.1"], True),
    ],
)
def test_a_critic_loss_that_is_always_nan_is_not_a_critic(
    tmp_path: Path, losses: list[str], beside: list[str], kept: bool
) -> None:
    rows = enumerate(zip(losses, beside, strict=True))
    text = "".join(f'{{"step": {i}, "reward": 0.5, "value_loss": {v}, "grad_norm": {g}}}\n' for i, (v, g) in rows)
    assert ("value_loss" in runs(tmp_path, "x.jsonl", text)[0].columns) is kept


def epochs(line: str, between: str) -> str:
    """Two epochs of 12 lines each, and a line after each of them."""
    return "".join(
        "".join(line.format(epoch=e, at=i * 10, loss=0.9 - 0.02 * i - 0.2 * e) for i in range(1, 13))
        + between.format(epoch=e, at=120)
        for e in (1, 2)
    )


@pytest.mark.parametrize(
    ("line", "between"),
    [
        ("Epoch:[{epoch}/2]({at}/120), loss: {loss:.3f}, lr: 0.00001\n", ""),
        (
            "Epoch:[{epoch}/2]({at}/120), loss: {loss:.3f}, lr: 0.00001\n",
            "[Store] kept step {at} (epoch {epoch}), metrics={{loss=0.4, lr=0.00001}}\n",
        ),
        ("Epoch {epoch}/2, Step {at}, Loss: {loss:.3f}\n", "Epoch {epoch} completed, Average Loss: 0.4\n"),
        ("Epoch [{epoch}/2], Step [{at}/120], Loss: {loss:.3f}\n", "Epoch [{epoch}/2] done, mean loss: 0.4\n"),
    ],
)
def test_steps_that_begin_again_with_each_epoch_are_one_run(tmp_path: Path, line: str, between: str) -> None:
    (run,) = runs(tmp_path, "sft.log", epochs(line, between))
    steps = sorted(set(run.steps.tolist()))
    assert (steps[:2], steps[-1], len(steps)) == ([10, 20], 240, 24)
    assert run.columns["epoch"][0] == 1
    assert run.columns["loss"][0] == pytest.approx(0.68)


def test_epochs_in_a_line_after_their_steps_are_one_run(tmp_path: Path) -> None:
    line, between = (
        "| {at:5d}/  130 batches | ms/batch  1.2 | loss {loss:.2f}\n",
        "| end of epoch {epoch} | test accuracy 0.{epoch}\n",
    )
    (run,) = runs(tmp_path, "pretrain.log", epochs(line, between))
    assert (len(run), run.steps[0], run.steps[-1]) == (24, 10, 240)
    again = epochs(line, between.replace("{epoch} |", "1 |"))
    assert [len(run) for run in runs(tmp_path, "again.log", again)] == [12, 12]  # the epoch does not count up


def test_epochs_in_separate_headings_are_one_run(tmp_path: Path) -> None:
    """As Keras prints them, with batches that restart in each epoch."""
    batches = "".join(f"batch {i * 500} - loss {{}}.{9 - i}\n" for i in range(8))
    (run,) = runs(tmp_path, "fit.log", "".join(f"Epoch {e}/3\n" + batches.format(*[5 - e] * 8) for e in (1, 2, 3)))
    assert (len(run), run.steps[0], run.steps[-1]) == (24, 0, 23 * 500)
    assert run.columns["epoch"].tolist() == [1] * 8 + [2] * 8 + [3] * 8
    again = "".join(f"Epoch {e}/3\n" + batches.format(*[5 - e] * 8) for e in (1, 2, 3)) * 2
    assert [len(run) for run in runs(tmp_path, "twice.log", again)] == [24, 24]


def test_a_bar_that_names_its_epoch_and_another_counter_after_it_are_one_run(tmp_path: Path) -> None:
    """As Lightning draws it: the epoch changes before the bar does, and a checkpoint names the updates, not the batches."""
    line = "Epoch {epoch}:  25%|##5   | {at}/120 [00:20<02:19,  2.48it/s, loss={loss:.2f}, v_num=0]"
    drawn, updates = [], 0
    for epoch in range(6):
        drawn.append(line.format(epoch=epoch, at=120 if epoch else 0, loss=3 - epoch / 4))
        drawn += [line.format(epoch=epoch, at=at, loss=2.9 - epoch / 4) for at in range(20, 121, 20)]
        updates += 50
        drawn[-1] += f"Epoch {epoch}, global step {updates}: 'val_loss' reached {3 - epoch / 4:.2f} (best 2.0), saving"
    (run,) = runs(tmp_path, "fit.log", "\n".join(drawn) + "\n")
    assert (run.run_type, run.steps[-1]) == ("supervised", 6 * 120)
    assert run.columns["eval_loss"][~np.isnan(run.columns["eval_loss"])].tolist() == [3, 2.75, 2.5, 2.25, 2, 1.75]


@pytest.mark.parametrize(("key", "kind"), [("train_win_rate", "rl"), ("win_rate", "evaluation")])
def test_a_win_rate_by_step_is_training_if_its_name_indicates_it(tmp_path: Path, key: str, kind: str) -> None:
    rows = [{"step": 30 * i, key: 0.01 * i, "eval_win_rate": 0.02 * i} for i in range(1, 17)]
    (run,) = runs(tmp_path, "rates.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    assert run.run_type == kind
