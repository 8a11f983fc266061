"""The generic console reader: any separator, any language, and lines from other programs."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from grpo_doctor import diagnose
from grpo_doctor.readers import read

from .make import known, run_of


def lines(template: str, count: int = 5) -> str:
    """Lines of a template with ``{i}`` from 1."""
    return "".join(template.format(i=i) for i in range(1, count + 1))


REWARD = {"reward_mean": [0.1, 0.2, 0.3, 0.4, 0.5]}
LOSS = {"loss": [0.1, 0.2, 0.3, 0.4, 0.5]}
ENTROPY = {"entropy_mean": [1.1, 1.2, 1.3, 1.4, 1.5]}
LENGTH = {"response_length_mean": [81.0, 82.0, 83.0, 84.0, 85.0]}

SHAPES = {
    "pipes": ("iter {i} | loss=0.{i} | mean_rew 0.{i} | ent 1.{i} | approx_kl 3e-4 | len 8{i}\n", LOSS | REWARD | ENTROPY | LENGTH),
    "minimind": ("Epoch:[1/1]({i}/500), Reward: 0.{i}, KL_ref: 0.0{i}, Avg Len: 8{i}\n", REWARD | LENGTH | {"kl": [0.01, 0.02, 0.03, 0.04, 0.05]}),
    "logging": ("2025-01-0{i} 12:00:0{i},123 INFO trainer.py:10 - Step {i}/50: avg_reward=0.{i}, entropy=1.{i}\n", REWARD | ENTROPY),
    "chinese": ("[2025-01-0{i}] 第{i}步 奖励：0.{i} 平均长度: 8{i} 熵: 1.{i}\n", REWARD | LENGTH | ENTROPY),
    "japanese": ("ステップ {i}: 報酬={i}e-1, 損失=0.{i}, エントロピー=1.{i}\n", REWARD | LOSS | ENTROPY),
    "korean": ("스텝 {i} 보상: 0.{i} 손실: 0.{i}\n", REWARD | LOSS),
    "german, decimal comma": ("Schritt {i}: Belohnung 0,{i} Verlust 0,{i} Entropie 1,{i}\n", REWARD | LOSS | ENTROPY),
    "spanish": ("Paso {i} | recompensa media: 0.{i} | pérdida: 0.{i} | longitud: 8{i}\n", REWARD | LOSS | LENGTH),
    "russian": ("Шаг {i}: средняя награда = 0.{i}, энтропия = 1.{i}\n", REWARD | ENTROPY),
    "subject and statistics": ("step {i} Reward: mean=0.{i} std=0.5 | Entropy: mean=1.{i}, min=0.5\n",
                               REWARD | ENTROPY | {"reward_std": [0.5] * 5, "entropy_min": [0.5] * 5}),
    "arrows and a tree": ("METRICS (Iteration {i})\n  ├─ Reward  → mean: 0.{i} | median: 0.5 | max: 1.0\n  └─ Entropy -> mean: 1.{i}\n",
                          REWARD | ENTROPY | {"reward_max": [1.0] * 5}),
    "plus minus and percent": ("Iteration {i}: reward = 0.{i} ± 0.5, success: {i}0%\n",
                               REWARD | {"reward_std": [0.5] * 5, "success_rate": [0.1, 0.2, 0.3, 0.4, 0.5]}),
    "a share as a fraction": ("Step: {i} Reward: 0.{i} Correct: {i}/5 Tokens: 100/512\n", REWARD | {"success_rate": [0.2, 0.4, 0.6, 0.8, 1.0]}),
    "percent without a sign": ("step {i} accuracy: {i}0 reward: 0.{i}\n", REWARD | {"success_rate": [0.1, 0.2, 0.3, 0.4, 0.5]}),
    "thousands": ("step {i} reward 0.{i} mean length 1,23{i} tokens\n", REWARD | {"response_length_mean": [1231, 1232, 1233, 1234, 1235]}),
    "blocks below a headline": ("=== Step {i}/9 ===\n  Mean reward: 0.{i}\n  Entropy: 1.{i}\n\n", REWARD | ENTROPY),
    "a table that names its step last": ("-----------------\n| train/      |     |\n|  reward | 0.{i} |\n|  loss | 0.{i} |\n| iteration | {i} |\n", REWARD | LOSS),
    "OpenRLHF's bar": ("Episode [1/1]:  {i}%|#| {i}/50 [00:0{i}<00:10, 1.0s/it, act_loss=-0.0{i}, reward=0.{i}, gen_len=8{i}, act_lr=1e-6]\n",
                       REWARD | LENGTH | {"policy_loss": [-0.01, -0.02, -0.03, -0.04, -0.05], "learning_rate": [1e-6] * 5}),
    "prime-rl": ("12:34:0{i} INFO Step {i} | Time: 12.{i}s | Loss: 0.{i} | Entropy: 1.{i} | Mismatch KL: 0.0{i} | Grad. Norm: 0.{i}\n",
                 LOSS | ENTROPY | {"rollout_mismatch_kl": [0.01, 0.02, 0.03, 0.04, 0.05], "grad_norm": [0.1, 0.2, 0.3, 0.4, 0.5]}),
    "prime-rl's orchestrator": ("12:34:0{i} SUCCESS Step {i} | Time: 6{i}.5s | Reward: 0.{i} | Throughput: 240{i}.9 tokens/s | Async Level: 1\n", REWARD),
    "a rate in capitals": ("SUCCESS RATE: 0.{i} | Reward: 0.{i} | Step {i}\n", REWARD | {"success_rate": [0.1, 0.2, 0.3, 0.4, 0.5]}),
    "slime": ("rollout {i}: {{'rollout/raw_reward': 0.{i}, 'perf/t': 1}}\nstep {i}: {{'train/loss': 0.{i}, 'train/entropy_loss': 1.{i}}}\n", REWARD | LOSS | ENTROPY),
}  # fmt: skip


@pytest.mark.parametrize(("template", "wanted"), SHAPES.values(), ids=SHAPES.keys())
def test_shapes(tmp_path: Path, template: str, wanted: dict[str, list[float]]) -> None:
    run = run_of(tmp_path, "train.log", "Loading the model, 4.5 GB\n" + lines(template))
    columns = known(run)
    assert (run.run_type, run.steps.tolist()) == ("rl", [1, 2, 3, 4, 5])
    assert {name: columns.get(name) for name in wanted} == {n: pytest.approx(v) for n, v in wanted.items()}


def test_mapped_and_unmapped_keys(tmp_path: Path) -> None:
    run = run_of(tmp_path, "x.log", lines(SHAPES["pipes"][0]))
    assert run.mapping == {
        "loss": "loss",
        "mean_rew": "reward_mean",
        "ent": "entropy_mean",
        "len": "response_length_mean",
    }
    assert dict(run.unread) == {"approx_kl": 5}


def test_nan_is_an_event_and_interleaved_texts_are_not_metrics(tmp_path: Path) -> None:
    text = ""
    for i in range(1, 6):
        text += f"step {i} loss {'nan' if i == 3 else i} reward 0.{i}\r\n"
        text += "Step 1: compute 3 + 4\nStep 2: loss: 9.0, so reward: 77\nworker.py:1752 started 3 workers\n"
    run = run_of(tmp_path, "x.log", text)
    assert (run.steps.tolist(), known(run)) == (
        [1, 2, 3, 4, 5],
        {"loss": [1, 2, "NaN", 4, 5], "reward_mean": [0.1, 0.2, 0.3, 0.4, 0.5]},
    )


def test_a_copy_of_the_metrics_line_in_a_completion(tmp_path: Path) -> None:
    text = lines("step {i} loss 0.{i} reward 0.{i}\n", 3) + "step 9999 loss 7 reward 7\n"
    text += "".join(f"step {i} loss 0.{i} reward 0.{i}\n" for i in (4, 5))
    assert run_of(tmp_path, "x.log", text).steps.tolist() == [1, 2, 3, 4, 5]


def test_rewards_of_single_samples_are_averaged_unless_the_mean_is_printed(tmp_path: Path) -> None:
    block = "### Step {i}\n" + "".join(f"  sample {k} reward: 0.{k}\n" for k in (2, 4)) + "  Entropy: 1.{i}\n"
    assert known(run_of(tmp_path, "a.log", lines(block)))["reward_mean"] == pytest.approx([0.3] * 5)
    assert known(run_of(tmp_path, "b.log", lines(block + "  average reward: 0.{i}\n"))) == REWARD | ENTROPY


def test_batches_that_begin_again_with_every_epoch_are_counted_on(tmp_path: Path) -> None:
    text = "".join(f"Epoch {e} Batch {b}/5: loss: {e}.{b}, reward: 0.{b}\n" for e in (1, 2) for b in range(1, 6))
    run = run_of(tmp_path, "x.log", "group_size = 8\n" + text)
    assert run.steps.tolist() == list(range(1, 11))
    assert not run.events
    assert run.settings == {"group_size": 8}


def test_no_steps_at_all(tmp_path: Path) -> None:
    run = run_of(tmp_path, "x.log", lines("loss: 0.{i} reward: 0.{i}\n"))
    assert run.steps.tolist() == [1, 2, 3, 4, 5]
    assert known(run) == LOSS | REWARD
    assert run_of(tmp_path, "y.log", "loss 1\nit is a loss 2\n").run_type == "none"


def test_two_steps_are_read(tmp_path: Path) -> None:
    run = run_of(tmp_path, "x.log", lines("step {i} reward 0.{i}\n", 2))
    assert (run.steps.tolist(), known(run)) == ([1, 2], {"reward_mean": [0.1, 0.2]})


def test_long_lines_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_bytes(b"step 1 reward 0.1\n" + b"y" * 50_000_000 + b"\nstep 2 reward 0.2\nstep 3 reward 0.3")
    (run,) = read(path)
    assert (run.steps.tolist(), run.lines.tolist()) == ([1, 2, 3], [1, 3, 4])
    assert run.notes == ["line 2 is longer than 4 MB and was skipped"]


@pytest.mark.parametrize(
    "row", ["step {i} loss 0.{i} reward 0.{i}\n", "step:{i} - actor/loss:0.{i} - reward/mean:0.{i}\n"]
)
def test_warnings_that_prove_something_are_events(tmp_path: Path, row: str) -> None:
    warning = "Caching is incompatible with gradient checkpointing in Qwen2DecoderLayer."
    error = "RuntimeError: probability tensor contains either `inf`, `nan` or element < 0"
    run = run_of(tmp_path, "x.log", f"{warning}\n{lines(row)}{error}\n")
    assert [(step, e.kind, e.message, e.line) for step, e in run.all_events()] == [
        (1, "log-warning", warning, 1),
        (5, "log-warning", error, 7),
        (5, "numerical failure", f"a numerical failure (line 7): {error}", 7),
    ]


ROW = "{{'loss': 0.{i}, 'reward': 0.{i}, 'epoch': 0.{i}}}"


@pytest.mark.parametrize(
    "glue",
    [
        "\r {i}0%|# | {i}0/99 [00:05<00:05]          ROW\r {i}0%|# | {i}0/99 [00:05<00:05]",
        "\n {i}0%|# | {i}0/99 [00:05<00:05]ROW",
    ],
)
def test_rows_glued_to_their_bar_have_its_step(tmp_path: Path, glue: str) -> None:
    run = run_of(tmp_path, "x.log", lines(glue.replace("ROW", ROW)))
    assert (run.steps.tolist(), known(run)["loss"]) == ([10, 20, 30, 40, 50], LOSS["loss"])


@pytest.mark.parametrize(("every", "wanted"), [(1, list(range(1, 10))), (3, [3, 6, 9, 12, 15, 18, 21, 24, 27])])
def test_rows_that_waited_in_a_buffer_while_the_bar_moved_on(tmp_path: Path, every: int, wanted: list[int]) -> None:
    text, rows = "", ""
    for i in range(1, 9 * every + 1):
        text += f"\r {i}%|# | {i}/99 [00:05<00:05]"
        rows += f"{{'loss': 0.1, 'reward': 0.{i // every}}}\n" * (i % every == 0)
        if i in (4 * every, 9 * every):
            text, rows = f"{text}{rows[:-1]}", ""
    run = run_of(tmp_path, "x.log", text + "\n")
    assert (run.steps.tolist(), known(run)["reward_mean"]) == (wanted, [i / 10 for i in range(1, 10)])


def test_rows_before_the_first_position_of_the_bar_share_the_way_to_it(tmp_path: Path) -> None:
    """For example, a bar is drawn only at each checkpoint, so no row has its own step."""
    row = "{{'loss': 0.{i}, 'reward': 0.{i}, 'reward_std': 0.4, 'epoch': 0.{i}}}\n"
    text = ""
    for i in range(1, 9):
        text += row.format(i=i) + (f"\r 9%|# | {i * 10}/80 [00:05<00:05]\n" if i in (2, 4, 6, 8) else "")
    for drawn, steps in ((text, [*range(10, 81, 10)]), (text.rpartition("\r")[0], [5, 10, 15, 20, 30, 40, 50, 60])):
        run = run_of(tmp_path, "x.log", drawn)
        assert known(run)["reward_mean"] == [i / 10 for i in range(1, 9)]
        assert run.steps.tolist() == steps


def test_the_bar_of_the_trainer_is_distinguished_from_others(tmp_path: Path) -> None:
    other = "100%|##| 1/1 [00:00<00:00]\n"
    bar = "\r {i}%|# | {i}0/99 [00:05<00:05]\n"
    evaluation = "\r 50%|# | 2/4 [00:01<00:01]\r100%|##| 4/4 [00:01<00:00]\n"
    for text in (other + lines(bar + ROW + "\n" + evaluation), lines(ROW + bar.replace("\r", ""))):
        assert run_of(tmp_path, "x.log", text).steps.tolist() == [10, 20, 30, 40, 50]
    assert run_of(tmp_path, "x.log", other + lines(ROW + "\n")).steps.tolist() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("rank", ["[rank{r}]: ", "[default{r}]:", "[Rank {r}] "])
def test_only_one_process_of_a_job_is_read(tmp_path: Path, rank: str) -> None:
    ranks = [rank.replace("{r}", str(r)) for r in (0, 1, 2)]
    for line in (ROW, "step {i} loss 0.{i} reward 0.{i}"):
        run = run_of(tmp_path, "x.log", lines("".join(f"{rank}{line}\n" for rank in ranks)))
        assert (run.steps.tolist(), known(run)["reward_mean"]) == ([1, 2, 3, 4, 5], REWARD["reward_mean"])


def test_unknown_names_are_reported_and_can_be_mapped(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_text(lines("Step {i}\n  vibes = 0.{i}\n  gpu_mem = 20.1\nbaz 7\n"), encoding="utf-8")
    (run,) = read(path)
    assert (run.run_type, dict(run.unread)) == ("none", {"vibes": 5, "gpu_mem": 5, "baz": 5})
    (run,) = read(path, {"vibes": "reward_mean"})
    assert (run.steps.tolist(), known(run), run.mapping) == ([1, 2, 3, 4, 5], REWARD, {"vibes": "reward_mean"})


def test_steps_that_are_aligned_to_the_right_are_one_headline(tmp_path: Path) -> None:
    text = "".join(f"│ training_step │ {i:3} │\n│ scores │ 0.{i:03} │\n│ lr │ 1e-6 │\n" for i in range(5, 15))
    run = run_of(tmp_path, "x.log", text)
    assert (run.steps.tolist(), known(run)["reward_mean"]) == (list(range(5, 15)), [i / 1000 for i in range(5, 15)])


@pytest.mark.parametrize(
    "label",
    ["[eval] step {i} |", "Eval step {i}:", "2025-01-01 12:00:00 INFO Validation | step {i}", "(test) step {i}"],
)
def test_lines_of_an_evaluation_are_not_those_of_training(tmp_path: Path, label: str) -> None:
    run = run_of(
        tmp_path, "x.log", lines("step {i} | train reward 0.{i} | loss 0.{i}\n" + label + " reward 0.9 | loss 7\n")
    )
    assert run.steps.tolist() == [1, 2, 3, 4, 5]
    assert known(run) == REWARD | LOSS | {"eval_score": [0.9] * 5, "eval_loss": [7] * 5}


def test_a_log_without_a_reward_is_not_rl(tmp_path: Path) -> None:
    for text in (
        "Step {i}: Train Loss=0.6{i}, Eval Loss=0.6{i}, Win Rate=0.5{i}\n",
        "step {i}: len 512, lr 1e-5, loss 0.{i}\n",
        "step {i}: reward_loss 0.{i} value_loss 0.{i} loss 0.{i}\n",
    ):
        assert run_of(tmp_path, "x.log", lines(text)).run_type == "supervised"


def test_the_same_row_after_the_number_of_each_process(tmp_path: Path) -> None:
    text = lines("".join(f"{rank}: {ROW}\n" for rank in (0, 1, 2)))
    assert run_of(tmp_path, "x.log", text).steps.tolist() == [1, 2, 3, 4, 5]


def test_an_epoch_may_count_the_rows_whatever_it_is_called(tmp_path: Path) -> None:
    run = run_of(tmp_path, "x.log", lines("RL training epoch {i}/5, Avg reward: 0.{i}\n"))
    assert (run.steps.tolist(), known(run)) == ([1, 2, 3, 4, 5], REWARD)


def test_the_batch_of_a_headline_counts_its_rows_rather_than_the_epoch(tmp_path: Path) -> None:
    block = (
        "epoch: 0, batch_num: {}\nobjective/kl: 0.{}\nppo/policy/ratio_mean: 1.0\nenv/reward_mean: 0.{}\n----------\n"
    )
    run = run_of(tmp_path, "train.log", "".join(block.format(10 * i, i, i) for i in range(1, 8)))
    assert run.steps.tolist() == [10, 20, 30, 40, 50, 60, 70]
    assert known(run)["reward_mean"] == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]


def test_evaluations_are_counted_by_the_number_after_their_sign(tmp_path: Path) -> None:
    text = "".join(f"Evaluation #{i} reward/mean: 0.{i}\nCollecting rollouts\n" for i in range(6))
    assert known(run_of(tmp_path, "train.log", text))["eval_score"] == [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]


def test_a_rule_below_a_headline_does_not_separate_it_from_its_lines(tmp_path: Path) -> None:
    text = lines("Epoch {i}/5\n----------\ntrain loss: 0.{i} val loss: 0.7\nval acc: 0.{i}\n\n")
    run = run_of(tmp_path, "x.log", text)
    assert (run.steps.tolist(), known(run)["loss"]) == ([1, 2, 3, 4, 5], LOSS["loss"])


def test_a_value_below_an_announced_evaluation_is_held_out(tmp_path: Path) -> None:
    block = "***** Evaluating perplexity, Epoch {e}/9 *****\nppl: {e}.5\nBeginning of Epoch {n}/9, Total Batches 46\n"
    run = run_of(tmp_path, "train.log", "".join(block.format(e=e, n=e + 1) for e in range(6)))
    assert (run.run_type, known(run)["eval_perplexity"]) == ("supervised", [0.5, 1.5, 2.5, 3.5, 4.5, 5.5])


def test_a_counted_accuracy_of_training_is_not_an_evaluation(tmp_path: Path) -> None:
    text = "".join(f"train_accuracy=0.{i}, scheduler.get_last_lr()=[3e-06], update={8 * i + 1}\n" for i in range(1, 9))
    assert run_of(tmp_path, "train.log", text).run_type == "supervised"
    assert run_of(tmp_path, "eval.log", text.replace("train_", "")).run_type == "evaluation"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("val_margin", "preference"),
        ("Policy Margin", "preference"),
        ("reward_accuracy", "preference"),
        ("marginal", "supervised"),
        ("rewards/accuracy/mean", "rl"),
        ("accuracy_reward", "rl"),
    ],
)
def test_a_margin_shows_preference_training(tmp_path: Path, name: str, kind: str) -> None:
    text = lines(f"step {{i}}: train_loss 0.6 | val_loss 0.5 | {name} 0.8")
    assert run_of(tmp_path, "x.log", text).run_type == kind


def test_steps_that_begin_again_with_the_epoch_of_their_headline_count_on(tmp_path: Path) -> None:
    text = "".join(f"Epoch {e}/3, Step {s}/10\nReward: 0.{e}{s}\n\n" for e in (1, 2, 3) for s in range(1, 11))
    run = run_of(tmp_path, "x.log", text)
    assert run.steps.tolist() == list(range(1, 31))
    assert known(run)["epoch"] == [e for e in (1, 2, 3) for _ in range(10)]


@pytest.mark.parametrize(
    "head",
    [
        "Config: {'lr': 1e-06,\n 'group_size': 8}\n",
        "{'lr': 1e-06,\n 'group_size': [8,\n  9\n",
        "Sample: {'answer': 3, and no end\n",
    ],
)
def test_a_mapping_over_many_lines_swallows_nothing_after_it(tmp_path: Path, head: str) -> None:
    run = run_of(tmp_path, "x.log", head + lines("step {i} | reward 0.{i}\n"))
    assert (run.steps.tolist(), known(run)) == ([1, 2, 3, 4, 5], REWARD)


def test_rows_as_indented_json(tmp_path: Path) -> None:
    rows = "".join(
        json.dumps({"step": i, "reward": i / 10, "loss": i / 10, "eps": 0}, indent=2) + "\n" for i in range(1, 6)
    )
    run = run_of(tmp_path, "x.log", "int main() {\n  return 0;\n}\n" + rows)
    assert (run.steps.tolist(), known(run)) == ([1, 2, 3, 4, 5], REWARD | LOSS)


def test_slime_numbers_rollouts_and_updates_apart(tmp_path: Path) -> None:
    text = ""
    for i in range(6):
        text += f"(Actor pid=1) data.py - rollout {i}: {{'rollout/raw_reward': 0.{i}, 'rollout/truncated': 0.0, 'rollout/kl': 0.0}}\n"
        text += "".join(
            f"(Actor pid=1) step {2 * i + k}: {{'train/loss': 0.5, 'train/grad_norm': 1.0}}\n" for k in (0, 1)
        )
    text += "eval 5: {'eval/aime': 0.25, 'eval/aime-truncated_ratio': 0.5}\n"
    run = run_of(tmp_path, "x.log", text)
    assert run.steps.tolist() == list(range(12))
    assert known(run)["reward_mean"][::2] == [0, 0.1, 0.2, 0.3, 0.4, 0.5]
    assert known(run)["eval_score"][-1] == 0.25
    assert "kl" not in run.columns


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("step {i} rewards: tensor([0.{i}, 0.{i}], device='cuda:0')\n", REWARD | {"reward_std": [0] * 5}),
        ("[step 000{i}] SKIP rewards=[0.{i},0.{i}] rollout=9s elapsed=9s\n", REWARD | {"reward_std": [0] * 5}),
        ("step {i} rewards=['0.{i}', '0.{i}'] loss=0.{i}\n", REWARD | LOSS | {"reward_std": [0] * 5}),
        (
            "[Step {i}/60]\n  Rewards: [0.{i}, 0, 0.{i}, 2e-1]\n  Loss: 0.{i}\n",
            LOSS
            | {
                "reward_mean": pytest.approx([0.1, 0.15, 0.2, 0.25, 0.3]),
                "reward_std": pytest.approx([0.0707107, 0.0866025, 0.122474, 0.165831, 0.212132], rel=1e-5),
            },
        ),
        ("Epoch [{i}/5]\n\tTrain Loss: 0.{i}\n\tMean Reward: 0.{i}\n", REWARD | LOSS | {"epoch": [1, 2, 3, 4, 5]}),
        ("reward 0.{i}\n", REWARD),
        ("Step {i}, Reward (mean ± std): 0.{i} ± 0.2\n", REWARD | {"reward_std": [0.2] * 5}),
        ("step {i} | pass@1 0.{i}\n", {"success_rate": REWARD["reward_mean"]}),
        ("Ep {i} | Avg R: 0.{i} | Len: 8{i}\n", REWARD | LENGTH),
        ("Step {i} | R: 0.{i} ± 0.2 | KL: 0\n", REWARD | {"reward_std": [0.2] * 5, "kl": [0] * 5}),
        ("Epoch {i}: P 0.9 R 0.8 F1 0.85 loss 0.{i}\n", LOSS),
        ("Training:  {i}%|#  | {i}/9 [00:10<00:20, 1.2s/it, R=0.{i}, U=28.3%]\r", REWARD),
    ],
    ids=[
        "tensor",
        "a skipped step",
        "quoted numbers",
        "list",
        "epochs in brackets",
        "one number a line",
        "spread",
        "pass@1",
        "mean R",
        "R",
        "recall",
        "R of a bar",
    ],
)
def test_more_ways_to_print_a_reward(tmp_path: Path, text: str, wanted: dict[str, list[float]]) -> None:
    run = run_of(tmp_path, "x.log", lines(text) * (1 if "{i}" in text.split("0.")[0] else 2))
    assert {key: values[:5] for key, values in known(run).items()} == wanted


@pytest.mark.parametrize(("dead", "field"), [("0.{i}", "zero_variance_share"), ("{i}", "zero_variance_groups")])
def test_fractional_zero_variance_groups_are_a_share(tmp_path: Path, dead: str, field: str) -> None:
    run = run_of(tmp_path, "x.log", lines("step {i} | reward 0.{i} | dead_groups " + dead + "\n"))
    assert field in run.columns


def test_rows_that_a_terminal_has_wrapped_anywhere(tmp_path: Path) -> None:
    """As copied from a terminal with this many columns; an unfinished bar or row affects no other line."""
    rows = [
        f"{{'loss': 0.{i}, 'grad_norm': 0.5, 'rewards/correct/mean': 0.{i}, 'reward': 0.{i}, 'epoch': 0.{i}}}"
        for i in range(1, 10)
    ]
    for width in (31, 57, 80):
        wrapped = "".join(f"{row[i : i + width]}\n" for row in rows for i in range(0, len(row), width))
        bar = " 10%|█         | 1/9 [00:01<00:09,  1.0s/it]\n"
        torn = "{'loss': 0.5, 'grad_\n" + wrapped
        for text in (wrapped, wrapped.replace("\n", "\n" + bar, 1), torn):
            run = run_of(tmp_path, "x.log", text)
            assert known(run)["reward_mean"] == [i / 10 for i in range(1, 10)]
            assert known(run)["grad_norm"] == [0.5] * 9
    cut = run_of(tmp_path, "x.log", "\n".join(rows) + "\n{'loss': 0.5, 'grad_norm': 0.5, 'rew")
    assert known(cut)["grad_norm"] == [0.5] * 10
    assert known(cut)["reward_mean"] == [*(i / 10 for i in range(1, 10)), None]
    assert "line 10 is incomplete: its last value and everything after it were not read" in cut.notes


def test_a_number_in_parentheses_is_that_of_the_name_before_it(tmp_path: Path) -> None:
    text = "step {i} -- mean_reward: (-0.{i}) -- 2 samples:\n  0: {i} days -- Reward: {i}.5\n"
    run = run_of(tmp_path, "x.log", "".join(text.format(i=i) for i in range(1, 6)))
    assert known(run)["reward_mean"] == [-0.1, -0.2, -0.3, -0.4, -0.5]


def test_a_transcript_of_an_environment_is_not_a_training(tmp_path: Path) -> None:
    line = "[STEP] step={i} action=move(3) reward={i}.00 done=false error=null\n"
    run = run_of(tmp_path, "x.log", "".join(line.format(i=i) for i in range(1, 20)))
    assert (run.run_type, len(run)) == ("evaluation", 0)


def test_one_row_that_was_pasted_over_two_lines(tmp_path: Path) -> None:
    first = "completions/mean_length: 256   completions/clipped_ratio: 1\n"
    columns = known(run_of(tmp_path, "row.log", first + "reward: 0   reward_std: 0   loss: 0   grad_norm: 0\n"))
    assert [columns[field] for field in ("truncated_rate", "reward_mean", "grad_norm")] == [[1.0], [0.0], [0.0]]
    assert not len(run_of(tmp_path, "less.log", first + "loss: 0\n"))  # nothing that only training has


@pytest.mark.parametrize(
    ("text", "numbered"),
    [
        ("reward 0.3 kl 4.5 grad_norm 45 entropy 0.01\n", False),
        ("{'reward': 0.3, 'kl': 4.5, 'grad_norm': 45.0, 'loss': 0.01}\n", False),
        ("{'reward': 0.3, 'kl': 4.5, 'grad_norm': 45.0, 'loss': 0.01, 'epoch': 0.02}\n", True),
        ("step 1: reward 0.3, kl 4.5, grad_norm 45, entropy 0.01\n", True),
        ("reward 0.3 kl 4.5 grad_norm 45 entropy 0.01\n" * 3, True),  # a log, whose first row is the first
    ],
)
def test_figures_that_name_no_step_are_not_those_of_the_first(tmp_path: Path, text: str, numbered: bool) -> None:
    run = run_of(tmp_path, "row.log", text)
    assert ("rows" not in run.settings) == numbered
    assert (diagnose(run).finding("KL006") is not None) == numbered


@pytest.mark.parametrize("rank", ["", "rank 0 "])
def test_verl_warnings_of_skipped_updates_are_a_run_only_without_metrics(tmp_path: Path, rank: str) -> None:
    text = f"[step 7] update begins\n(WorkerDict pid=3) WARN: {rank}grad_norm is not finite: inf\n"
    others = text.replace("rank 0", "rank 5").replace("inf", "nan") if rank else ""
    run = run_of(tmp_path, "x.log", text + others)
    assert (run.format, known(run)) == ("verl-console", {"grad_norm": [math.inf]})
    finding = diagnose(run).finding("GRD001")
    assert finding is not None
    assert finding.message == "grad_norm has been infinite on 1 step."
    whole = run_of(tmp_path, "y.log", text + lines("step:{i} - actor/grad_norm:0.{i} - critic/score/mean:0.{i}\n"))
    assert known(whole)["grad_norm"] == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5])


def test_a_bar_of_validation_is_not_a_training(tmp_path: Path) -> None:
    lines = []
    for i in range(4):
        lines.append(f"val: 100%|████| 8/8 [01:27<00:00,  2.91s/it, reward=0.5, acc=0.5, tokens={300 + i}]")
        lines.append(f"train: 100%|████| 90/90 [03:37<00:00,  1.85it/s, reward={i / 10}, acc={i / 10}, tokens=326]")
        lines.append(f"1|1|Loss: 0.03: 100%|████| 1/1 [07:29<00:00, 449.9s/it, loss=0.03, grad_magnitude={i}.9]")
    run = run_of(tmp_path, "x.log", "\n".join(lines))
    assert (known(run)["eval_score"], known(run)["reward_mean"]) == ([0.5] * 4, [0.0, 0.1, 0.2, 0.3])
    assert known(run)["grad_norm"] == [0.9, 1.9, 2.9, 3.9]


def test_epochs_in_headlines_count_where_a_line_of_another_loop_counts_nothing(tmp_path: Path) -> None:
    blocks = []
    for epoch in range(19, 180, 20):
        blocks.append(f"(Epoch:{epoch - 9} actor iter: {epoch % 3}) Early stopping due to kl of ~ 0.07")
        blocks.append(f"Completed epoch {epoch}.\nreward_mean: {epoch / 200}\nentropy: {3 - epoch / 100}\n")
    path = tmp_path / "train.log"
    path.write_text("\n".join(blocks), encoding="utf-8")
    (run,) = read(path)
    assert run.steps.tolist() == list(range(19, 180, 20))
    assert run.columns["reward_mean"].tolist() == [epoch / 200 for epoch in range(19, 180, 20)]


def test_a_mapping_of_only_the_mismatch_joins_the_lines_with_metrics(tmp_path: Path) -> None:
    """A step as XTuner prints it: sampler against trainer as JSON, one line per minibatch, and statistics line by
    line."""
    block = (
        "[XTuner][RANK 0][INFO] Rollout {i}: avg entropy: 0.4{i}, avg rollout entropy: 0.4\n rollout mismatch metrics:\n"
        '{{\n    "mismatch/mismatch_kl": 0.002,\n    "mismatch/mismatch_k3_kl": 0.00{i}\n}}\n'
        "[XTuner][RANK 0][INFO] Rank0 Rollout {i} Step 0: reduced_loss=-0.0010, grad_norm=0.1{i}\n"
        "[XTuner][RANK 0][INFO] Rank0 Rollout {i} Step 1: reduced_loss=-0.0010, grad_norm=0.1{i}\n"
        "[XTuner][INFO] Train step {i}/100\nTrain step {i} finished and timing listed:\n - step     : 100.00s\n"
        "Train step {i} data statistics:\n- rewards/mean       : 0.{i}\n- response_len/mean  : 8{i}.0\n"
    )
    run = run_of(tmp_path, "train.log", lines(block))
    assert (run.steps.tolist(), run.run_type) == ([1, 2, 3, 4, 5], "rl")
    wanted = REWARD | LENGTH | {
        "entropy_mean": [0.41, 0.42, 0.43, 0.44, 0.45],
        "grad_norm": [0.11, 0.12, 0.13, 0.14, 0.15],
        "rollout_mismatch_kl": [0.001, 0.002, 0.003, 0.004, 0.005],
        "rollout_mismatch_k1": [0.002] * 5,
    }  # fmt: skip
    assert {name: pytest.approx(values) for name, values in wanted.items()} == known(run)


@pytest.mark.parametrize(
    "heading",
    ["Step {}:", "Iteration {}/9:", "[2026-01-01 10:00:00] Metrics at step {}:", "Training step {} completed:"],
)
def test_a_heading_with_a_colon_names_the_step_of_the_lines_below_it(tmp_path: Path, heading: str) -> None:
    text = "".join(f"{heading.format(2 * i)}\n  reward: 0.{i}\n  kl: 0.01\n" for i in range(1, 6))
    run = run_of(tmp_path, "x.log", text)
    assert (run.steps.tolist(), known(run)["reward_mean"]) == ([2, 4, 6, 8, 10], REWARD["reward_mean"])


@pytest.mark.parametrize(
    ("row", "accuracy"),
    [
        ("Step {i}/9, Loss: 0.6, Margin: 0.0{i}, Accuracy: 5{i}.00%\n", [0.51, 0.52, 0.53, 0.54, 0.55]),
        ("Ep 1 (Step {i}): Train loss 0.6, Train reward margins 0.0{i}, Val reward margins 0.0, acc 0.5\n", [0.5] * 5),
        (
            "step {i} | loss 0.6 | chosen_rewards 0.1 | rejected_rewards 0.0 | reward_acc 0.{i}\n",
            [0.1, 0.2, 0.3, 0.4, 0.5],
        ),
    ],
)
def test_the_names_of_pairs_are_those_of_preference_training(tmp_path: Path, row: str, accuracy: list[float]) -> None:
    run = run_of(tmp_path, "x.log", lines(row))
    assert (run.run_type, known(run)["success_rate"]) == ("preference", accuracy)


@pytest.mark.parametrize("heading", ["Step {}", "--- step: {} ---", "[Global step {}/900]"])
def test_a_heading_names_the_step_of_the_mapping_below_it(tmp_path: Path, heading: str) -> None:
    row = "{{'loss': 0.5, 'reward': 0.{}, 'kl': 0.01}}\nsome text\n"
    text = "".join(f"{heading}\n{row}".format(100 * i, i) for i in (1, 2, 3))
    run = run_of(tmp_path, "x.log", text)
    assert (run.steps.tolist(), known(run)["reward_mean"]) == ([100, 200, 300], [0.1, 0.2, 0.3])


def test_a_heading_far_above_a_mapping_does_not_name_its_step(tmp_path: Path) -> None:
    text = "".join(f"Step 7{i}\nsome text\nand more\n{{'loss': 0.5, 'reward': 0.{i}, 'kl': 0.01}}\n" for i in (1, 2, 3))
    assert run_of(tmp_path, "x.log", text).steps.tolist() == [1, 2, 3]


def test_a_configuration_that_other_output_interrupts_is_read_in_its_parts(tmp_path: Path) -> None:
    """The name of a section is part of the key: ``n`` in the rollout section is the group size."""
    ray = "(TaskRunner pid=7) "
    lines = (
        "{'data': {'train_batch_size': 64,", "Gym is unmaintained",
        " 'actor_rollout_ref': {'rollout': {'n': 8,", "                        'top_p': 1.0}},",
    )  # fmt: skip
    text = "".join(f"{ray}{line}\n" for line in lines)
    rows = "".join(f"{ray}step:{i} - actor/entropy:0.5 - critic/score/mean:0.{i}\n" for i in (1, 2, 3))
    run = run_of(tmp_path, "x.log", text + rows)
    assert run.settings["group_size"] == 8
    assert known(run)["reward_mean"] == [0.1, 0.2, 0.3]


def test_a_count_of_skipped_updates_does_not_say_whether_one_was_applied(tmp_path: Path) -> None:
    text = "".join(f"step={i}, skipped=6, loss=0.{i}, reward=0.5\n" for i in range(1, 6))
    run = run_of(tmp_path, "x.log", text)
    assert "update_applied" not in run.columns
    assert "skipped is not read as update_applied, because its values are out of range" in run.notes


def test_a_block_below_a_heading_with_a_logger_has_the_step_of_the_heading(tmp_path: Path) -> None:
    block = (
        "2025-01-01 00:00:00,001 - INFO - Epoch {i} complete:\n2025-01-01 00:00:00,001 - INFO -   Avg Reward: 0.{i}\n"
    )
    run = run_of(tmp_path, "x.log", "".join(block.format(i=i) for i in range(1, 6)))
    assert (run.steps.tolist(), known(run)["reward_mean"]) == ([1, 2, 3, 4, 5], [0.1, 0.2, 0.3, 0.4, 0.5])


def test_rows_of_the_training_need_no_field_of_an_update(tmp_path: Path) -> None:
    row = "KEY METRICS: {{'train/rewards': 0.{i}, 'train/reward_metrics/format_reward': 0.{i}{held_out}}}\n"
    text = "".join(
        row.format(i=i, held_out="" if i % 3 else ", 'eval/rewards': 0.5") + "Generated 64 responses\n"
        for i in range(1, 10)
    )
    assert known(run_of(tmp_path, "a.log", text))["reward_mean"] == [i / 10 for i in range(1, 10)]


def test_a_summary_after_the_last_row_declares_no_setting(tmp_path: Path) -> None:
    """W&B prints the final value of the schedule."""
    rows = lines("step {i} | reward 0.{i}\n")
    assert run_of(tmp_path, "a.log", "learning_rate = 1e-6\n" + rows).settings["learning_rate"] == 1e-6
    assert "learning_rate" not in run_of(tmp_path, "b.log", rows + "wandb: train/lr 0.0\n").settings


@pytest.mark.parametrize(("times", "told"), [(3, True), (2, False)])
def test_lines_that_report_skipped_updates_are_counted(tmp_path: Path, times: int, told: bool) -> None:
    warned = "Warning: Gradient norm too large: 3056.00, skipping update\n"
    run = run_of(tmp_path, "a.log", lines("step {i} | reward 0.{i}\n") + warned * times)
    note = f"{times} of the last {5 + times} lines report skipped updates, batches or steps; the first of them is "
    assert (f"{note}{warned.strip()!r}" in run.notes) is told


@pytest.mark.parametrize(
    ("line", "rows"), [("    return 0  # not implemented\n", 0), ("update {i} return: 0.{i}\n", 5)]
)
def test_a_statement_in_generated_code_is_no_reward(tmp_path: Path, line: str, rows: int) -> None:
    run = run_of(tmp_path, "train.log", lines(f"def score{{i}}(answer):\n{line}"))
    assert len(known(run).get("reward_mean", [])) == rows


DEEPSPEED = "[INFO] [logging.py:96:log_dist] [Rank 0] step={i}0, skipped={lost}, lr=[1e-05], mom=[(0.9, 0.99)]\n"


@pytest.mark.parametrize(("lost", "told"), [("{i}0", True), ("{i}", False)])
def test_updates_that_are_mostly_skipped_are_reported(tmp_path: Path, lost: str, told: bool) -> None:
    """With loss scaling, a few skipped updates are normal."""
    text = lines("loss: 0.9{i}\n" + DEEPSPEED.replace("{lost}", lost), 12)
    run = run_of(tmp_path, "train.log", text)
    assert (run.repeated_error is not None) is told
    if run.repeated_error is not None:
        assert run.repeated_error.described == '12 lines report skipped updates: "step=10, skipped=10"'
        assert diagnose(run).headline.endswith("Find out why updates are skipped first.")


@pytest.mark.parametrize(("rows", "told"), [(20, True), (21, False)])
def test_skipped_batches_count_if_they_are_half_of_the_rows(tmp_path: Path, rows: int, told: bool) -> None:
    skip = "ppo_trainer.py:1128: UserWarning: The average ratio of batch exceeds threshold 10.00. Skipping batch.\n"
    text = "".join(f"step {i} loss: 0.{i}\n{skip if i <= 10 else ''}" for i in range(1, rows + 1))
    found = run_of(tmp_path, "train.log", text).repeated_error
    said = '10 lines report skipped updates: "The average ratio of batch exceeds threshold 10.00. Skipping batch"'
    assert (found.described if found else None) == (said if told else None)
