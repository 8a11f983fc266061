"""Excerpts as people paste them below a question: incomplete, wrapped, transposed, or a single row."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grpo_doctor.readers import read

from .make import known, run_of

WRAPPED = """(Task pid=7) step:31 - actor/entropy:0.71 - actor/grad_norm:0.25 - critic/score/mean:0.5{a}
{b} - response_length/clip_ratio:0.125
(Task pid=7) step:32 - actor/entropy:0.72 - actor/grad_norm:0.25 - critic/score/mean:0.625 - response_length/clip_ratio:0.25
"""


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (" -", "critic/score/max:1.0"),
        ("", "- critic/score/max:1.0"),
        (" - critic/score/max:1", ".0"),
        (" - critic/sc", "ore/max:1.0"),
        (" -", "critic/score/max:\n1.0"),
    ],
    ids=["after a dash", "before a dash", "in a value", "in a key", "twice"],
)
def test_a_line_of_verl_that_a_terminal_has_wrapped_is_one(tmp_path: Path, a: str, b: str) -> None:
    run = run_of(tmp_path, "x.log", WRAPPED.format(a=a, b=b))
    columns = known(run)
    assert run.steps.tolist() == [31, 32]
    assert (columns["reward_mean"], columns["truncated_rate"]) == ([0.5, 0.625], [0.125, 0.25])
    if "twice" not in b and "\n" not in b:
        assert columns["reward_max"] == [1.0, None]


def test_a_line_below_one_of_verl_that_is_none_of_it(tmp_path: Path) -> None:
    text = "step:{i} - actor/entropy:0.5 - critic/score/mean:0.{i}\nINFO - saved in 2.5 s\n eval/acc:0.75\n"
    run = run_of(tmp_path, "x.log", "".join(text.format(i=i) for i in range(1, 6)))
    assert known(run)["reward_mean"] == [0.1, 0.2, 0.3, 0.4, 0.5]


def test_lines_of_verl_that_processes_print_between_each_other_stay_apart(tmp_path: Path) -> None:
    text = "".join(
        f"(Task pid={pid}) step:{i} - actor/entropy:0.{pid} - critic/score/mean:0.{i}\n"
        for i in range(1, 8)
        for pid in (3, 4)
    )
    path = tmp_path / "x.log"
    path.write_text(text, encoding="utf-8")
    from grpo_doctor.readers import read

    assert [set(known(run)["entropy_mean"]) for run in read(path)] == [{0.3}, {0.4}]


def test_rows_of_a_history_that_were_cut_out_of_its_list(tmp_path: Path) -> None:
    row = '    {{\n      "kl": 0.25,\n      "loss": 0.5,\n      "reward": 0.{i},\n      "step": 7{i}\n    }},\n'
    run = run_of(tmp_path, "x.txt", '  "log_history": [\n' + row.format(i=1) + row.format(i=2))
    assert (run.steps.tolist(), known(run)["reward_mean"]) == ([71, 72], [0.1, 0.2])


def test_a_frame_of_pandas_has_an_index_without_a_name(tmp_path: Path) -> None:
    text = ">>> print(df.tail(3))\n     step  reward     kl\n17  180.0   0.125  0.500\n18  190.0   0.250  0.625\n19  200.0   0.375  0.750\n"
    run = run_of(tmp_path, "x.txt", text)
    assert (run.steps.tolist(), known(run)) == (
        [180, 190, 200],
        {"reward_mean": [0.125, 0.25, 0.375], "kl": [0.5, 0.625, 0.75]},
    )


@pytest.mark.parametrize(
    ("text", "step"),
    [
        ("| metric | value |\n|---|---|\n| reward | 0.5 |\n| kl | 2 |\n| grad_norm | 3 |\n| entropy | 1 |\n| global_step | 180 |\n", 180),
        ("wandb: Run summary:\nwandb: train/entropy 1\nwandb: train/global_step 54\nwandb: train/grad_norm 3\n"
         "wandb: train/kl 2\nwandb: train/reward 0.5\n", 54),
        ("reward  0.5\nkl      2\ngrad_norm    3\nentropy    1\n", 1),
    ],
    ids=["markdown", "wandb", "no step"],
)  # fmt: skip
def test_one_row_over_many_lines_bears_the_step_that_one_of_them_names(tmp_path: Path, text: str, step: int) -> None:
    run = run_of(tmp_path, "x.txt", text)
    assert run.steps.tolist() == [step]
    assert known(run) == {"reward_mean": [0.5], "kl": [2.0], "grad_norm": [3.0], "entropy_mean": [1.0]}


COURSE = {"reward_mean": [0.5, 0.25, 0.125], "kl": [0.5, 2.0, 4.0]}


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("| **Step** | `reward` | *KL* |\n|---|---|---|\n| 10 | 0.5 | ~0.5 |\n| 20 | **0.25** | 2 |\n| 30 | 0.125 | ≈4 |\n", [10, 20, 30]),
        ("| Checkpoint | reward | KL |\n|---|---|---|\n| step 10 | 0.5 | 0.5 |\n| step 20 | 0.25 | 2 |\n| ckpt-30 | 0.125 | 4 |\n", [10, 20, 30]),
        ("| Steps | reward | KL |\n|---|---|---|\n| 1-10 | 0.5 | 0.5 |\n| 11–20 | 0.25 | 2 |\n| 21 to 30 | 0.125 | 4 |\n", [10, 20, 30]),
        ("| | reward | KL |\n|:--|--:|--:|\n| step 500 | 0.5 | 0.5 |\n| step 1k | 0.25 | 2 |\n| step 2k | 0.125 | 4 |\n", [500, 1000, 2000]),
        ("| | reward | KL |\n|:--|--:|--:|\n| 0 | 0.5 | 0.5 |\n| 1 | 0.25 | 2 |\n| 2 | 0.125 | 4 |\n", [1, 2, 3]),
        ("| Training step | reward | KL | |\n|---|---|---|---|\n| 500 | 0.5 | 0.5 | well |\n| 1k | 0.25 | 2 | |\n| 2k | 0.125 | 4 | dead |\n", [500, 1000, 2000]),
        ("   reward    kl\n0   0.500   0.5\n1   0.250   2.0\n2   0.125   4.0\n", [1, 2, 3]),
        ("my run:\n```csv\nstep,reward,kl\n10,0.5,0.5\n20,0.25,2\n30,0.125,4\n```\n", [10, 20, 30]),
    ],
    ids=["marks", "step in words", "ranges", "no name", "an index without a name", "thousands", "an index alone", "fenced"],
)  # fmt: skip
def test_drawn_tables(tmp_path: Path, text: str, steps: list[int]) -> None:
    run = run_of(tmp_path, "x.md", text)
    assert (run.steps.tolist(), known(run)) == (steps, COURSE)


def test_a_text_table_of_models_is_not_a_run(tmp_path: Path) -> None:
    text = "| model | reward | KL |\n|---|---|---|\n| qwen 7 | 0.5 | 0.5 |\n| llama 8 | 0.25 | 2 |\n"
    assert len(run_of(tmp_path, "x.md", text)) <= 1


def easyr1(prefix: str, step: int) -> str:
    """A step as EasyR1 prints it: metrics as a YAML mapping, split at the slashes of verl's keys."""
    told = f"""Step {step}
actor:
  entropy_loss: 1.{step}
  kl_loss: 2.0e-0{step}
critic:
  advantages:
    mean: -0.01
  score:
    max: 1.0
    mean: 0.{step}
prompt_length:
  clip_ratio: 0.875
response_length:
  clip_ratio: 0.125
reward:
  format: 0.5
  overall: 0.{step}
"""
    told += "val:\n  accuracy_reward: 0.25\n  reward_score: 0.75\n" if step in (2, 4) else ""
    return "".join(f"{prefix}{line}\n" for line in told.splitlines())


@pytest.mark.parametrize("prefix", ["", "(Runner pid=77) "], ids=["bare", "behind Ray's prefix"])
def test_metrics_that_are_cut_at_their_slashes_and_indented(tmp_path: Path, prefix: str) -> None:
    between = "(Worker pid=5) loading: done\n" if prefix else "\n"
    text = "".join(easyr1(prefix, i).replace(f"{prefix}critic:", f"{between if prefix else ''}{prefix}critic:")
                   + between for i in range(1, 6))  # fmt: skip
    run = run_of(tmp_path, "x.log", text)
    columns = known(run)
    assert run.steps.tolist() == [1, 2, 3, 4, 5]
    assert columns["reward_mean"] == [0.1, 0.2, 0.3, 0.4, 0.5]
    assert columns["truncated_rate"] == [0.125] * 5
    assert columns["kl"] == pytest.approx([0.2, 0.02, 0.002, 0.0002, 0.00002])
    assert columns["eval_score"] == [None, 0.75, None, 0.75, None]
    assert "clip_fraction" not in columns
    assert run.columns["reward_components"].tolist() == [{"format": 0.5}] * 5


def test_an_indented_block_that_is_not_verls_is_read_as_before(tmp_path: Path) -> None:
    text = "".join(f"Step {i}\nrewards:\n  Mean reward: 0.{i}\nEntropy: 1.{i}\n\n" for i in range(1, 6))
    columns = known(run_of(tmp_path, "x.log", text))
    assert columns["reward_mean"] == [0.1, 0.2, 0.3, 0.4, 0.5]
    assert columns["entropy_mean"] == [1.1, 1.2, 1.3, 1.4, 1.5]


def test_bare_statistics_are_those_of_the_heading_above_them(tmp_path: Path) -> None:
    block = (
        "Step {i}\n  Rewards:\n    mean: 0.{i}\n    std: 0.5\n  KL:\n    mean: 1.{i}\n  took:\n    mean: 9.5\nmax: 7\n"
    )
    columns = known(run_of(tmp_path, "x.log", "".join(block.format(i=i) for i in range(1, 6))))
    assert columns == {
        "reward_mean": [0.1, 0.2, 0.3, 0.4, 0.5],
        "reward_std": [0.5] * 5,
        "kl": [1.1, 1.2, 1.3, 1.4, 1.5],
    }


BARS = "| Step | {} |\n|---|---|\n" + "| {{}}0 | 0.{{}} |\n" * 6 + "\n"


def drawn(name: str) -> str:
    """A table of six steps with a metric of this name."""
    return BARS.format(name).format(*(digit for i in range(1, 7) for digit in (i, i)))


def test_several_tables_of_a_document_are_apart(tmp_path: Path) -> None:
    """Each with its own header, whatever its width: rows below another header do not belong to the first table."""
    models = "| Model | MATH |\n|---|---|\n| small | 41.2 |\n| large | 55.0 |\n\n"
    wide = "| Epoch | Loss | KL |\n|:--|--:|--:|\n| 1 | 1.5 | 0.1 |\n| 2 | 1.25 | 0.2 |\n"
    path = tmp_path / "report.md"
    path.write_text("# A report\n\n" + drawn("Reward") + models + drawn("Loss") + wide, encoding="utf-8")
    reward, epochs = read(path)
    assert known(reward) == {"reward_mean": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]}
    assert any("of 6 rows, loss 0.1 to 0.6, not judged here" in note for note in reward.notes)
    assert {key: known(epochs)[key] for key in ("loss", "kl")} == {"loss": [1.5, 1.25], "kl": [0.1, 0.2]}
    assert epochs.source.endswith(".md (table 3)")


def test_a_row_of_dots_does_not_end_a_table(tmp_path: Path) -> None:
    run = run_of(tmp_path, "a.md", drawn("Reward").replace("| 30 |", "| ... | ... |\n| 30 |"))
    assert run.steps.tolist() == [10, 20, 30, 40, 50, 60]


PROSE = "It has been like this for days, whatever the learning rate is.\n" * 40
BLOCK = "Step {i}/60\n  Reward: 0.{i}\n  KL: 0.0{i}\n" + "  a line of what was sampled\n" * 15


@pytest.mark.parametrize("fence", ["```\n{}```\n", "~~~text\n{}~~~\n", "> ```\n{}> ```\n"])
@pytest.mark.parametrize("said", ["", "At first reward: 0.1\nand then reward: 0.2\n"])
def test_a_log_in_a_fence_of_a_document(tmp_path: Path, fence: str, said: str) -> None:
    """Regardless of the length of its blocks and of the numbers in the sentences around it."""
    log = fence.format("".join(BLOCK.format(i=i) for i in range(1, 7)))
    run = run_of(tmp_path, "issue.md", PROSE + said + PROSE + log + PROSE + said)
    assert known(run) == {"reward_mean": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6], "kl": [i / 100 for i in range(1, 7)]}


@pytest.mark.parametrize(("language", "times"), [("", 2), ("python", 6)])
def test_a_fence_of_few_lines_or_of_code_is_not_a_log(tmp_path: Path, language: str, times: int) -> None:
    text = f"```{language}\n" + "".join(BLOCK.format(i=i) for i in range(1, times + 1)) + "```\n"
    run = run_of(tmp_path, "guide.md", PROSE + text + PROSE)
    assert (len(run), run.notes[0]) == (
        0,
        "numbers in prose are not a log; extract the log from the document",
    )


@pytest.mark.parametrize(
    "line",
    [
        "2026-01-02 03:04:05 - train - INFO - loss: 0.{i}, token_entropy: 1.5, counts: {{'total_reward': {i}.0, 'all': 8}}\n",
        "[train] loss=0.{i} token_entropy=1.5 rewards={{'total_reward': {i}, 'style': 2}}\n",
    ],
)
def test_metrics_before_a_mapping_on_the_same_line_are_read_with_it(tmp_path: Path, line: str) -> None:
    columns = known(run_of(tmp_path, "a.log", "".join(line.format(i=i) for i in range(1, 7))))
    assert columns["loss"] == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
    assert (columns["entropy_mean"], columns["reward_mean"]) == ([1.5] * 6, [1, 2, 3, 4, 5, 6])


def test_pairs_that_were_cut_out_of_rows_with_their_quotes(tmp_path: Path) -> None:
    text = "".join(f"completions/mean_length': '8{i}'\n'reward': '0.{i}'\n" for i in range(1, 7)) * 2
    columns = known(run_of(tmp_path, "grep.txt", text))
    assert columns["reward_mean"][:6] == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
    assert columns["response_length_mean"][:2] == [81, 82]


HISTORY = [
    {"loss": 0.01 * n, "grad_norm": 0.5, "reward": 0.1 * n, "reward_std": 0.25, "step": 10 * n} for n in (1, 2, 3, 4)
]


@pytest.mark.parametrize("name", ["x.log", "x.json", "x.md"])
@pytest.mark.parametrize(
    ("above", "below"),
    [
        ("", ""),
        (">>> print(trainer.state.log_history)\n", ""),
        ("Why? See [here](a).\n```\n", "\n```\nThanks [all].\n"),
    ],
    ids=["alone", "a prompt", "a comment"],
)
@pytest.mark.parametrize("printed", [str, json.dumps], ids=["print", "json"])
def test_the_history_of_a_trainer_as_it_is_printed(
    tmp_path: Path, printed: Callable[[Any], str], above: str, below: str, name: str
) -> None:
    run = run_of(tmp_path, name, above + printed(HISTORY) + below)
    assert run.steps.tolist() == [10, 20, 30, 40]
    assert known(run)["reward_mean"] == pytest.approx([0.1, 0.2, 0.3, 0.4])


@pytest.mark.parametrize("told", ["nan", "NaN", "np.float32(nan)", "tensor(nan, device='cuda:0')"])
def test_printed_none_is_not_a_number(tmp_path: Path, told: str) -> None:
    rows = str([{**row, "name": "it's", "done": True, "note": None} for row in HISTORY])
    run = run_of(tmp_path, "x.log", rows.replace("0.04,", f"{told},").replace("0.5", "np.float64(0.5)"))
    assert math.isnan(run.columns["loss"][-1])
    assert run.columns["grad_norm"].tolist() == [0.5] * 4
    assert [(step, event.kind) for step, event in run.all_events()] == [(40, "nan")]


def test_a_mapping_as_somebody_writes_it_in_python(tmp_path: Path) -> None:
    text = "{\n  'reward': 0.5,\n  'kl': tensor(0.25),\n  'grad_norm': array(2.5, dtype=float32),\n  'loss': 0.5,\n}\n"
    columns = known(run_of(tmp_path, "x.log", text))
    assert (columns["reward_mean"], columns["kl"], columns["grad_norm"], columns["loss"]) == (
        [0.5],
        [0.25],
        [2.5],
        [0.5],
    )


def test_lists_of_other_mappings_are_left_to_the_console(tmp_path: Path) -> None:
    row = "step {n} reward 0.{n} loss 0.0{n} of [{{'reward': 0.5, 'loss': 1}}, {{'reward': 0.1, 'loss': 2}}]\n"
    run = run_of(tmp_path, "x.log", "".join(row.format(n=n) for n in range(1, 6)))
    assert run.format != "json"
    said = "[{'role': 'user', 'content': 'Hi'}, {'role': 'assistant', 'content': 'Ho'}]\n"
    assert (
        run_of(tmp_path, "y.log", f"sample: {said}step 1 reward 0.5 loss 0.1\nstep 2 reward 0.6 loss 0.1\n").format
        != "json"
    )


def test_names_that_one_space_parts_stand_above_their_own_columns(tmp_path: Path) -> None:
    head = " Step Reward_pct        Loss\n"
    rows = "".join(f"{i:5d} {3 * i:8.2f}% {100 / (i + 1):11.6f}\n" for i in range(12))
    path = tmp_path / "table.txt"
    path.write_text("Rewards of the run\n" + head + rows, encoding="utf-8")
    (run,) = read(path)
    assert run.steps.tolist() == list(range(12))
    assert run.columns["success_rate"].tolist() == pytest.approx([0.03 * i for i in range(12)])
