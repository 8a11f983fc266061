"""Each format: a small file of it, and the exact values that are read back, NaN included."""

from __future__ import annotations

import gzip
import io
import json
import math
from pathlib import Path

import pytest
import zstandard

from grpo_doctor.readers import ReadError, read
from grpo_doctor.readers.aliases import resolve
from grpo_doctor.readers.settings import declared
from grpo_doctor.record import NUMBER_FIELDS
from grpo_doctor.run import Run

from .make import known, run_of, tfevents, wandb

NAN = math.nan


def test_trl_console_with_bars_ansi_fences_and_a_summary(tmp_path: Path) -> None:
    text = (
        "# run\n```text\n\r  0%|          | 0/20 [00:00<?, ?it/s]\r 50%|#####     | 10/20 [00:05<00:05,  1.9it/s]\n"
        "\x1b[32m\r      \r{'loss': 0.5, 'grad_norm': nan, 'reward': 0.25, 'kl': None, 'completions/clipped_ratio': 0.25, "
        "'frac_reward_zero_std': 0.5, 'epoch': 0.1}\x1b[0m\r 50%|#####     | 10/20 [00:05<00:05]MDI: 3\n"
        "The answer is {'loss': 9.0, 'reward': 9.0}\n"
        "100%|##########| 20/20 [00:10<00:00,  2.0it/s]\r{'loss': '-7.5e-09', 'grad_norm': '0.1', 'reward': '0.5', "
        "'kl': np.float64(0.01), 'completions/clipped_ratio': '0', 'frac_reward_zero_std': '1', 'epoch': '0.2'}\n"
        "{'train_runtime': 5.0, 'train_loss': 0.1, 'epoch': 0.2}\n```\n"
    )
    run = run_of(tmp_path, "run.md", text)
    assert (run.format, run.run_type, run.steps.tolist()) == ("trl-console", "rl", [10, 20])
    assert known(run) == {
        "loss": [0.5, -7.5e-09],
        "grad_norm": ["NaN", 0.1],
        "reward_mean": [0.25, 0.5],
        "kl": [None, 0.01],
        "truncated_rate": [0.25, 0.0],
        "eos_rate": [0.75, 1.0],
        "zero_variance_share": [0.5, 1.0],
        "epoch": [0.1, 0.2],
    }


def test_trl_console_without_carriage_returns_uses_the_last_bar(tmp_path: Path) -> None:
    bars = ["".join(f" {s}%|#  | {s}/43 [00:01<00:09,  1.9s/it]" for s in range(a, a + 10)) for a in (1, 11)]
    text = f"{bars[0]}\n   num_tokens: 4306.0\n  {{'loss': 0.5, 'reward': 0.25, 'kl': 0.1}}\n 10%|#  | 10/43 [00:01<00:09]x\n"
    text += f"{bars[1]}\n   num_tokens: 9306.0\n  {{'loss': 0.5, 'reward': 0.75, 'kl': 0.1}}\n"
    run = run_of(tmp_path, "run.md", text)
    assert (run.format, run.steps.tolist(), known(run)["reward_mean"]) == ("trl-console", [10, 20], [0.25, 0.75])


def test_progress_bars_of_no_width_give_positions_too(tmp_path: Path) -> None:
    rows = [
        f"  {s}% {s}/100 [00:{s:02d}<01:09,  1.9s/it]\nnoise\n{{'loss': 0.5, 'reward': 0.{s}}}\n" for s in (14, 19, 24)
    ]
    run = run_of(tmp_path, "run.log", "Map: 100% 7/7 [00:01<00:00]\n" + "".join(rows))
    assert (run.format, run.steps.tolist(), known(run)["reward_mean"]) == (
        "trl-console",
        [14, 19, 24],
        [0.14, 0.19, 0.24],
    )


def test_trl_console_without_bars_counts_rows_and_skips_copies_of_other_processes(tmp_path: Path) -> None:
    row = "{'loss': %s, 'reward': %s, 'epoch': %s}\n"
    text = "".join(2 * (row % (i, i, i / 10)) for i in (1, 2, 3))
    run = run_of(tmp_path, "out", text)
    assert (run.steps.tolist(), known(run)["loss"]) == ([1, 2, 3], [1, 2, 3])


def test_trainer_state(tmp_path: Path) -> None:
    text = """{"epoch": 1.0, "global_step": 20, "max_steps": 20, "log_history": [
      {"loss": 0.0, "reward": 0.5, "reward_std": NaN, "completion_length": 88.5, "rewards/f": 0.5, "step": 10},
      {"eval_reward": 0.75, "eval_rewards/f_reward": 1.0, "step": 10},
      {"loss": NaN, "reward": 0.75, "reward_std": 0.25, "completion_length": 90, "rewards/f": 0.75, "step": 20},
      {"train_runtime": 3.0, "train_loss": 0.0, "step": 20}]}"""
    run = run_of(tmp_path, "trainer_state.json", text)
    assert (run.format, run.run_type, run.steps.tolist()) == ("trainer-state", "rl", [10, 20])
    assert known(run) == {
        "loss": [0.0, "NaN"],
        "reward_mean": [0.5, 0.75],
        "reward_std": ["NaN", 0.25],
        "response_length_mean": [88.5, 90],
        "eval_score": [0.75, None],
    }
    assert run.columns["reward_components"].tolist() == [{"f": 0.5}, {"f": 0.75}]
    assert run.settings == {"max_steps": 20}


def test_a_few_evaluations_with_an_epoch_are_not_restarts(tmp_path: Path) -> None:
    rows: list[dict[str, float]] = []
    for step in range(1, 31):
        rows.append({"step": step, "epoch": step / 30, "reward": 0.5, "num_tokens": 9.0 * step})
        if step % 15 == 0:
            rows.append({"step": step, "epoch": step / 30, "eval_reward": 0.25, "num_tokens": 9.0 * step})
    for name, text in (
        ("trainer_state.json", json.dumps({"log_history": rows})),
        ("x.jsonl", "\n".join(map(json.dumps, rows))),
    ):
        run = run_of(tmp_path, name, text)
        assert (run.steps.tolist(), run.events) == (list(range(1, 31)), {})
        assert [run.columns["eval_score"][i] for i in (14, 29)] == [0.25, 0.25]


@pytest.mark.parametrize(("every", "steps"), [(2, [2, 4, 6]), (3, [1, 2, 3, 4, 5, 6])])
def test_evaluations_keep_their_steps_if_they_outnumber_the_training_rows(
    tmp_path: Path, every: int, steps: list[int]
) -> None:
    rows: list[dict[str, float]] = []
    for step in range(1, 7):
        if step % every == 0:
            rows.append({"step": step, "loss": 0.7, "reward": 0.5})
        if step % 2 == 0 or every == 3:
            rows.append({"step": step, "eval_reward": step / 8})
    run = run_of(tmp_path, "trainer_state.json", json.dumps({"log_history": rows}))
    assert run.steps.tolist() == steps
    assert run.columns["eval_score"].tolist() == [step / 8 for step in steps]


def test_json_list_torn_and_with_crlf(tmp_path: Path) -> None:
    text = '[\r\n  {"step": 1, "reward_mean": 1.0, "kl_divergence": 0.5},\r\n  {"step": 2, "reward_mean": 0.5, "kl_divergence": Infinity},\r\n  {"step": 3, "rewa'
    run = run_of(tmp_path, "step_logs.json", text)
    assert known(run) == {"reward_mean": [1.0, 0.5], "kl": [0.5, math.inf]}
    assert run.notes == ["the JSON is incomplete; the rows before the end were read"]


def test_json_columns(tmp_path: Path) -> None:
    run = run_of(tmp_path, "history.json", json.dumps({"step": [5, 6], "train/reward": [0.1, None], "loss": [1, 2]}))
    assert (run.steps.tolist(), known(run)) == ([5, 6], {"reward_mean": [0.1, None], "loss": [1, 2]})


def test_trl_ppo_rows(tmp_path: Path) -> None:
    row = {"objective/kl": 10.4, "objective/entropy": 23.6, "objective/scores": -0.1, "objective/rlhf_reward": -0.6}
    row |= {"policy/entropy_avg": 0.28, "policy/approxkl_avg": 0.2, "loss/policy_avg": 0.03, "loss/value_avg": 9.8}
    row |= {"val/ratio": 0.95, "val/num_eos_tokens": 1, "lr": 5e-6}
    run = run_of(tmp_path, "t.json", json.dumps([{**row, "episode": 4 * i, "step": i} for i in (1, 2)]))
    assert known(run) == {
        "reward_mean": [-0.1] * 2,
        "entropy_mean": [0.28] * 2,
        "policy_loss": [0.03] * 2,
        "value_loss": [9.8] * 2,
        "ratio_mean": [0.95] * 2,
        "learning_rate": [5e-6] * 2,
        "eos_rate": [0.25] * 2,
        "kl_sequence": [10.4] * 2,
    }
    assert {"objective/entropy", "policy/approxkl_avg"} <= run.unread.keys()


def test_completions_jsonl_and_parquet(tmp_path: Path) -> None:
    rows = [
        {"step": s, "prompt": [{"role": "user", "content": f"p{p}"}], "completion": f"c{c}", "accuracy": r, "advantage": a}
        for s in (1, 2) for p in (0, 1) for c, (r, a) in enumerate(((1.0, 0.7071), (p * 1.0, -0.7071 if not p else 0.7071)))
    ]  # fmt: skip
    run = run_of(tmp_path, "completions.jsonl", "\n".join(map(json.dumps, rows)))
    assert (run.format, run.steps.tolist()) == ("completions", [1, 2])
    assert {k: v[0] for k, v in known(run).items()} == pytest.approx(
        {
            "unique_rate": 0.5,
            "top_pattern_share": 0.5,
            "reward_mean": 0.75,
            "reward_std": 0.4330127,
            "reward_min": 0,
            "reward_max": 1,
            "groups": 2,
            "zero_variance_groups": 1,
            "live_groups": 1,
            "group_size": 2,
            "advantage_mean": 0.35355,
            "advantage_std": 0.612366614,
            "advantage_min": -0.7071,
            "advantage_max": 0.7071,
            "repetition_rate": 0,
            "prompt_echo_rate": 0,
            "refusal_rate": 0,
            "aborted_rate": 0,
            "other_script_rate": 0,
            "prompt_recovery": -0.5,
            "success_rate": 0.75,
            "response_chars_mean": 2,
            "right_chars_mean": 2,
            "wrong_chars_mean": 2,
        }
    )
    assert [(s.prompt, s.response, s.reward) for s in run.samples[1]][:2] == [("p0", "c0", 1.0), ("p0", "c1", 0.0)]
    arrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    pyarrow.parquet.write_table(arrow.Table.from_pylist(rows), tmp_path / "completions_00002.parquet")
    (other,) = read(tmp_path / "completions_00002.parquet")
    assert known(other) == known(run)


VERL = """commit abc
bash run.sh data.train_batch_size=256 actor_rollout_ref.rollout.n=8
\x1b[36m(TaskRunner pid=16)\x1b[0m {'actor_rollout_ref': {'actor': {'entropy_coeff': 0.001,
\x1b[36m(WorkerDict pid=17)\x1b[0m interleaved { line
\x1b[36m(TaskRunner pid=16)\x1b[0m                                  'use_kl_loss': False},
\x1b[36m(TaskRunner pid=16)\x1b[0m                        'rollout': {'n': 8, 'temperature': 0.7, 'val_kwargs': {'top_p': 0.1}}},
\x1b[36m(TaskRunner pid=16)\x1b[0m  'algorithm': {'use_kl_in_reward': False, 'kl_ctrl': {'kl_coef': 0.001}}}
(TaskRunner pid=16) step:0 - val-core/gsm8k/acc/mean@1:0.25
(TaskRunner pid=16) step:1 - actor/entropy:np.float64(0.5) - actor/lr(1e-4):0.01 - critic/score/mean:0.25 - critic/rewards/mean:0.2 - actor/ppo_kl:0.0 - response_length/clip_ratio:0.1
(TaskRunner pid=16) The model says step:7 - reward:9.0
(TaskRunner pid=16) step:2 - actor/entropy:nan - actor/lr(1e-4):0.02 - critic/score/mean:0.5 - critic/rewards/mean:0.4 - actor/ppo_kl:0.0 - response_length/clip_ratio:0.2 - val-core/gsm8k/acc/mean@1:0.75
"""


def test_verl_console(tmp_path: Path) -> None:
    run = run_of(tmp_path, "train.log", VERL)
    assert (run.format, run.steps.tolist(), run.lines.tolist()) == ("verl-console", [1, 2], [9, 11])
    assert known(run) == {
        "entropy_mean": [0.5, "NaN"],
        "learning_rate": pytest.approx([1e-6, 2e-6]),
        "reward_mean": [0.25, 0.5],
        "reward_after_kl": [0.2, 0.4],
        "truncated_rate": [0.1, 0.2],
        "eval_score": [0.25, 0.75],
    }
    assert "actor/ppo_kl" in run.unread
    wanted = {"group_size": 8, "temperature": 0.7, "entropy_coef": 0.001, "kl_coef": 0.0, "use_kl_loss": False}
    assert {k: run.settings.get(k) for k in wanted} == wanted
    assert "top_p" not in run.settings


def test_verl_file_logger(tmp_path: Path) -> None:
    text = '{"step":1,"data":{"actor/entropy":0.5,"actor/grad_norm":null}}\n{"step":2,"data":{"actor/entropy":0.4,"actor/grad_norm":1.5}}\n'
    assert known(run_of(tmp_path, "e.jsonl", text)) == {"entropy_mean": [0.5, 0.4], "grad_norm": [None, 1.5]}


def test_typed_rows_are_one_step_and_an_evaluation_is_not_a_separate_one(tmp_path: Path) -> None:
    rows = [{"type": "eval", "grpo_step": 0, "reward": 0.1, "temperature": 1.0}]
    for step in (1, 2):
        rows.append({"type": "rollout", "grpo_step": step, "reward": step / 10, "group_size": 4, "num_groups": 2})
        rows += [
            {"type": "train", "grpo_step": step, "loss": b, "grad_norm": 3.0 - b, "train_reward": 9, "kl_coef": 0.0}
            for b in (1.0, 2.0)
        ]
    rows.append({"type": "eval", "grpo_step": 2, "reward": 0.9, "temperature": 1.0})
    run = run_of(tmp_path, "metrics.jsonl", "\n".join(map(json.dumps, rows)))
    assert (run.run_type, run.steps.tolist()) == ("rl", [1, 2])
    assert known(run) == {
        "eval_score": [0.1, 0.9],
        "reward_mean": [0.1, 0.2],
        "group_size": [4, 4],
        "groups": [2, 2],
        "loss": [2.0, 2.0],
        "grad_norm": [2.0, 2.0],
        "kl_coef": [0.0, 0.0],
    }


def test_jsonl_lists_restarts_and_repeated_steps(tmp_path: Path) -> None:
    text = ""
    for step in (1, 2, 3, 3, 4, 5, 3, 4, 5, 6):
        skipped = step % 2 == 0
        rewards = [0.6, 0.6] if skipped else [1.0, 0.6]
        row = {
            "step": step,
            "rewards": rewards,
            "mean_reward": sum(rewards) / 2,
            "skipped": skipped,
            "ground_truth": "7",
        }
        text += json.dumps(row if skipped else row | {"advantages": [1.0, -1.0]}) + "\n"
    run = run_of(tmp_path, "grpo_log.jsonl", text)
    assert run.steps.tolist() == [1, 2, 3, 3, 4, 5, 3, 4, 5, 6]
    assert [(row, e.message) for row, events in run.events.items() for e in events] == [
        (3, "step 3 comes again"),
        (6, "step goes back from 5 to 3"),
    ]
    columns = known(run)
    assert {k: columns[k][:2] for k in ("reward_mean", "reward_std", "group_size", "zero_variance_groups", "update_applied")} == {
        "reward_mean": [0.8, 0.6],
        "reward_std": pytest.approx([0.2, 0.0]),
        "group_size": [2, 2],
        "zero_variance_groups": [0, 1],
        "update_applied": [1, 0],
    }  # fmt: skip
    assert run.columns["group_rewards"][0] == [[1.0, 0.6]]
    assert run.columns["advantage_abs_values"][0] == [1.0]


def test_tinker_cookbook(tmp_path: Path) -> None:
    rows = [
        {"progress/batch": i, "env/all/reward/total": 0.5, "env/all/by_group/frac_mixed": 0.25, "optim/lr": 1e-4,
         "optim/kl_sample_train_v2": 0.001, "optim/entropy": 0.7, "env/all/ac_tokens_per_turn": 90.5, "time/total": 3}
        for i in (0, 1)
    ]  # fmt: skip
    run = run_of(tmp_path, "metrics.jsonl", "\n".join(map(json.dumps, rows)))
    assert run.steps.tolist() == [0, 1]
    assert {k: v[0] for k, v in known(run).items()} == {
        "reward_mean": 0.5,
        "zero_variance_share": 0.75,
        "learning_rate": 1e-4,
        "rollout_mismatch_kl": 0.001,
        "entropy_mean": 0.7,
        "response_length_mean": 90.5,
    }


def test_llama_factory_trainer_log_is_supervised_and_swift_logging_is_rl(tmp_path: Path) -> None:
    rows = [{"current_steps": i, "total_steps": 9, "loss": 2.0 / i, "lr": 1e-5, "epoch": 0.1 * i} for i in (5, 10)]
    run = run_of(tmp_path, "trainer_log.jsonl", "\n".join(map(json.dumps, rows)))
    assert (run.run_type, run.steps.tolist(), known(run)["loss"]) == ("supervised", [5, 10], [0.4, 0.2])
    swift = [{"loss": 0.1, "reward": 0.5, "kl": 0.01, "global_step/max_steps": f"{i}/100", "entropy/mean": 0.3} for i in (5, 10)]  # fmt: skip
    run = run_of(tmp_path, "logging.jsonl", "\n".join(map(json.dumps, swift)))
    assert (run.run_type, run.steps.tolist(), known(run)["entropy_mean"]) == ("rl", [5, 10], [0.3, 0.3])


def test_tensorboard(tmp_path: Path) -> None:
    rows = [(10, {"train/loss": 0.5, "train/reward": 0.25}), (20, {"train/loss": NAN, "train/reward": 0.75})]
    settings = {"args/text_summary": '{"num_generations": 4, "beta": 0.0}'}
    content = tfevents(rows, settings)
    run = run_of(tmp_path, "events.out.tfevents.1.host", content + b"\x00\x01torn")
    assert (run.format, run.run_type, run.steps.tolist()) == ("tensorboard", "rl", [10, 20])
    assert known(run) == {"loss": [0.5, "NaN"], "reward_mean": [0.25, 0.75]}
    assert run.settings == {"group_size": 4, "kl_coef": 0.0}
    assert run.notes == ["the last event is incomplete and was skipped (the writer was interrupted)"]


def test_tensorboard_as_its_own_library_writes_it(tmp_path: Path) -> None:
    writer = pytest.importorskip("torch.utils.tensorboard").SummaryWriter(tmp_path)
    for step in range(3):
        writer.add_scalar("train/kl", step / 4, step)
        writer.add_scalar("train/reward", step / 2, step)
    writer.close()
    (run,) = read(tmp_path)
    assert (run.steps.tolist(), known(run)) == ([0, 1, 2], {"kl": [0, 0.25, 0.5], "reward_mean": [0, 0.5, 1]})


def test_wandb_over_several_blocks(tmp_path: Path) -> None:
    rows = [{"train/global_step": i, "train/reward": i / 8, "train/kl": NAN if i == 3 else 0.5, "train/note": "x" * 9000, "_step": 2 * i} for i in range(1, 9)]  # fmt: skip
    run = run_of(tmp_path, "run-x.wandb", wandb(rows, {"num_generations": 8, "temperature": {"value": 0.7}}))
    assert (run.format, run.steps.tolist()) == ("wandb", list(range(1, 9)))
    assert known(run) == {"reward_mean": [i / 8 for i in range(1, 9)], "kl": [0.5, 0.5, "NaN", 0.5, 0.5, 0.5, 0.5, 0.5]}
    assert run.settings == {"group_size": 8, "temperature": 0.7}


def test_a_proxy_is_the_reward_and_a_gold_reward_is_held_out(tmp_path: Path) -> None:
    rows = [{"step": i, "proxy_reward": i / 8, "gold_reward": 1 - i / 8, "rewards/true_reward": 0.5} for i in (1, 2)]
    run = run_of(tmp_path, "x.jsonl", "\n".join(map(json.dumps, rows)))
    assert known(run) == {"reward_mean": [0.125, 0.25], "eval_score": [0.875, 0.75]}
    assert run.columns["reward_components"].tolist() == [{"true_reward": 0.5}] * 2


def test_bare_words_are_proxy_and_gold_next_to_each_other_alone(tmp_path: Path) -> None:
    run = run_of(tmp_path, "x.csv", "step,proxy,gold\n1,0.5,0.25\n2,0.75,0.125\n")
    assert known(run) == {"reward_mean": [0.5, 0.75], "eval_score": [0.25, 0.125]}
    run = run_of(tmp_path, "x.csv", "step,mean_proxy_reward,mean_true_reward\n1,0.5,0.25\n2,0.75,0.125\n")
    assert known(run) == {"reward_mean": [0.5, 0.75], "eval_score": [0.25, 0.125]}
    run = run_of(tmp_path, "x.csv", "step,reward,gold\n1,0.5,42\n2,0.75,17\n")
    assert (known(run), run.unread) == ({"reward_mean": [0.5, 0.75]}, {"gold": 2})


@pytest.mark.parametrize(("others", "taken"), [(10, "reward"), (11, "mean_reward")])
def test_a_key_on_less_than_half_as_many_rows_gives_way(tmp_path: Path, others: int, taken: str) -> None:
    rows = [{"step": i, "mean_reward": 0.25} | ({"reward": 9.0} if i <= 5 else {}) for i in range(1, others + 1)]
    run = run_of(tmp_path, "x.jsonl", "\n".join(map(json.dumps, rows)))
    assert {key: field for key, field in run.mapping.items() if field == "reward_mean"} == {taken: "reward_mean"}


@pytest.mark.parametrize(("extra", "kind"), [("", "evaluation"), (",loss", "rl")])
def test_steps_of_an_environment_are_not_training_without_an_update(tmp_path: Path, extra: str, kind: str) -> None:
    rows = "".join(f"{i},move {i},{i % 2},False{',0.5' if extra else ''}\n" for i in range(1, 30))
    assert run_of(tmp_path, "x.csv", f"step,action,reward,done{extra}\n{rows}").run_type == kind


def test_the_rate_to_which_a_schedule_has_come_is_not_the_declared_one(tmp_path: Path) -> None:
    """The last row of a run, alone: its learning rate has decayed to 0, and its group size is that of the run."""
    row = '{"reward": 1.0, "learning_rate": 0.0, "num_generations": 4, "args": {"beta": 0.04}}'
    run = run_of(tmp_path, "last.json", row)
    assert run.settings == {"group_size": 4, "kl_coef": 0.04, "rows": "unnumbered"}
    assert run.columns["learning_rate"].tolist() == [0.0]


def test_wandb_summary_is_one_row(tmp_path: Path) -> None:
    run = run_of(
        tmp_path, "wandb-summary.json", '{"train/reward": 0.5, "train/global_step": 40, "_wandb": {"runtime": 3}}'
    )
    assert (run.format, run.steps.tolist(), known(run)) == ("wandb-summary", [40], {"reward_mean": [0.5]})


def test_csv_and_tsv(tmp_path: Path) -> None:
    text = 'step,reward,loss,note\n1,0.5,nan,"a, b"\n2,,0.25,c\n3,1.0,inf,d\n'
    wanted = {"reward_mean": [0.5, None, 1.0], "loss": ["NaN", 0.25, math.inf]}
    for content in (
        text,
        text.replace("a, b", "a").replace('"', "").replace(",", "\t"),
        "\ufeff" + text.replace("\n", "\r\n"),
    ):
        run = run_of(tmp_path, "steps.csv", content)
        assert (run.format, run.steps.tolist(), known(run)) == ("csv", [1, 2, 3], wanted)


HEAD = ["Step", "Training Loss", "reward", "rewards / correct", "completions / clipped_ratio"]
CELLS = [["5", "No log", "0.5", "1.0", "0.25"], ["10", "0.001", "0.75", "0.5", "nan"]]


def drawn(bar: str, edge: str = "") -> str:
    return "".join(f"{edge}{bar.join(row)}{edge}\n" for row in (HEAD, *CELLS))


BOXED = "".join(
    [
        "┏━━━━┳━━━━┳━━━━┓\n",
        drawn(" ┃ ", "┃").partition("\n")[0],
        "\n┡━━━━╇━━━━╇━━━━┩\n",
        drawn(" │ ", "│").partition("\n")[2],
        "└────┴────┴────┘\n",
    ]
)


@pytest.mark.parametrize(
    "text",
    [
        drawn("\t"),
        "Using GPU 0, 4.5 GB\n\n" + drawn("   "),
        "# My run\n\nIt went well.\n\n"
        + drawn(" | ", "|").replace("\n", "\n|---|---:|---|---|---|\n", 1)
        + "\nThe end.\n",
        BOXED,
        "".join(bytes([byte]).decode("cp1252", "ignore") or chr(byte) for byte in BOXED.encode()),
    ],
    ids=["tabs", "spaces", "markdown", "boxed", "boxed for Windows"],
)
def test_tables_of_notebooks(tmp_path: Path, text: str) -> None:
    run = run_of(tmp_path, "out.txt", text)
    assert (run.format, run.run_type, run.steps.tolist()) == ("csv", "rl", [5, 10])
    assert known(run) == {
        "loss": [None, 0.001],
        "reward_mean": [0.5, 0.75],
        "truncated_rate": [0.25, None],
        "eos_rate": [0.75, None],
    }
    assert run.columns["reward_components"].tolist() == [{"correct": 1.0}, {"correct": 0.5}]


def test_a_metric_that_the_first_row_does_not_hold_is_read_all_the_same(tmp_path: Path) -> None:
    text = "Step | Training Loss | rewards / f / mean | reward\n-- | -- | -- | --\n1 | 0.5 | No log | 0.5\n2 | 0.5 | 0.25 | 0.5\n"
    run = run_of(tmp_path, "out.txt", text)
    assert run.columns["reward_components"].tolist() == [None, {"f": 0.25}]


def test_times_and_shares_of_rewards_are_not_components(tmp_path: Path) -> None:
    head = "step,critic_rewards_mean,timing_s_reward,reward_zero_frac,reward_hit_rate,format_reward\n"
    run = run_of(tmp_path, "metrics.csv", head + "1,0.5,12.5,0.2,0.4,1\n2,0.6,12.6,0.1,0.5,1\n")
    assert run.columns["reward_components"].tolist() == [{"format": 1.0}] * 2
    assert {"timing_s_reward", "reward_zero_frac", "reward_hit_rate"} <= set(run.unread)


def page(rows: list[list[str]]) -> str:
    cells = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<div><progress value='2'></progress></div><table border='1'><thead>{cells}</thead></table><p>"


def test_the_outputs_of_each_cell_are_a_run(tmp_path: Path) -> None:
    console = "".join(f"{{'loss': {i}, 'reward': 0.{i}, 'epoch': {i}}}\n" for i in (1, 2, 3)).splitlines(keepends=True)
    outputs = [
        [{"output_type": "display_data", "data": {"text/html": page([HEAD, *CELLS]).splitlines(keepends=True)}}],
        [{"output_type": "stream", "text": console[:2]}, {"output_type": "stream", "text": "".join(console[2:])}],
        [{"output_type": "stream", "text": "nothing\n"}],
    ]
    cells = [{"cell_type": "code", "outputs": output, "source": ["{'loss': 9, 'reward': 9}"]} for output in outputs]
    path = tmp_path / "train.ipynb"
    path.write_text(json.dumps({"cells": [{"cell_type": "markdown", "source": "x"}, *cells], "nbformat": 4}), "utf-8")
    table, rows = read(path)
    assert (table.source, table.steps.tolist(), known(table)["reward_mean"]) == (str(path), [5, 10], [0.5, 0.75])
    assert (rows.format, rows.steps.tolist(), known(rows)["loss"]) == ("trl-console", [1, 2, 3], [1, 2, 3])
    assert table.columns["reward_components"].tolist() == [{"correct": 1.0}, {"correct": 0.5}]
    path.write_text('{"cells": [{"cell_type": "code", "outputs": []}]}', "utf-8")
    assert read(path)[0].notes == ["its cells have no output; run the notebook and save it"]
    path.write_text(json.dumps({"cells": [{"cell_type": "code", "outputs": [{"text": "nothing"}]}]}), "utf-8")
    assert read(path)[0].notes == ["no metric was recognised in the outputs of its cells"]


def test_columns_of_a_hand_written_console(tmp_path: Path) -> None:
    run = run_of(
        tmp_path, "out.txt", "loading\n step  loss reward\n    1  0.50   0.25\n    2  0.25   0.75\ndone in 3 s\n"
    )
    assert (run.steps.tolist(), known(run)) == ([1, 2], {"loss": [0.5, 0.25], "reward_mean": [0.25, 0.75]})
    assert (
        run_of(tmp_path, "r.md", "| Model | Accuracy | Reward |\n|---|---|---|\n| a | 0.5 | 1 |\n").run_type == "none"
    )


def test_exports_of_wandb_are_a_run_each(tmp_path: Path) -> None:
    path = tmp_path / "wandb_export.csv"
    names = [
        "train/global_step",
        *(f"{run} - train/{key}" for run in ("a - b", "c") for key in ("kl", "kl__MIN", "kl__MAX")),
    ]
    path.write_text(
        ",".join(f'"{name}"' for name in names) + '\n"5","1","0","9","","",""\n"10","2","0","9","3","0","9"\n', "utf-8"
    )
    runs = read(path)
    assert [(run.source.removeprefix(str(path)), run.steps.tolist(), known(run)) for run in runs] == [
        (" (a - b)", [5, 10], {"kl": [1, 2]}),
        (" (c)", [10], {"kl": [3]}),
    ]


def test_the_scalar_of_a_tensorboard_export_is_named_by_its_file(tmp_path: Path) -> None:
    text = "Wall time,Step,Value\n1.7e9,10,0.5\n1.7e9,20,nan\n"
    run = run_of(tmp_path, "run-grpo-tag-train_kl.csv", text)
    assert (run.steps.tolist(), known(run), run.mapping) == ([10, 20], {"kl": [0.5, "NaN"]}, {"train_kl": "kl"})
    assert run_of(tmp_path, "scalar.csv", text).run_type == "none"


def test_rows_that_say_true_to_evaluation_are_one(tmp_path: Path) -> None:
    rows = [{"step": step, "reward": step / 100, "loss": 0.1} for step in range(40)]
    held = [{"step": step, "eval": True, "recall@10": 0.5, "loss": 9.0} for step in range(40)]
    text = "".join(f"{json.dumps(row)}\n{json.dumps(score)}\n" for row, score in zip(rows, held, strict=True))
    run = run_of(tmp_path, "grpo.jsonl", text)
    assert (len(run), set(run.columns["eval_score"]), set(run.columns["loss"])) == (40, {0.5}, {0.1})


def test_declared_rewards_of_a_task_are_not_earned_rewards(tmp_path: Path) -> None:
    row = {"prompt": "Mend the server.", "task": "a", "reward_spec": {"success_reward": 10.0, "reward": 1.0}}
    assert run_of(tmp_path, "train.jsonl", f"{json.dumps(row)}\n" * 30).run_type == "none"


def test_a_text_about_groups_is_not_a_run(tmp_path: Path) -> None:
    text = "So beta = 0.05 and there are 6 groups.\nNow beta = 0.05 and there are 6 groups.\n" * 3
    assert run_of(tmp_path, "x.txt", text).run_type == "none"


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        ("grpo_rewards.csv", "step,mean,min,max\n1,0.5,0,1\n2,0.25,0,1\n", [0.5, 0.25]),
        ("grpo_rewards.csv", "step,reward,mean\n1,0.5,7\n2,0.25,7\n", [0.5, 0.25]),
        ("losses.csv", "step,mean,min,max\n1,0.5,0,1\n2,0.25,0,1\n", None),
    ],
)
def test_bare_statistics_are_those_of_what_the_file_is_named_after(
    tmp_path: Path, name: str, text: str, wanted: list[float] | None
) -> None:
    assert known(run_of(tmp_path, name, text)).get("reward_mean") == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("# lr=1e-6\nstep,reward\n1,0.5\n2,0.25\n", {"reward_mean": [0.5, 0.25]}),
        ("step;reward\n1;0,5\n2;0,25\n", {"reward_mean": [0.5, 0.25]}),
        ('{\n  "step": 1,\n  "reward": 0.5\n}\n{\n  "step": 2,\n  "reward": 0.25\n}\n{\n  "st', {"reward_mean": [0.5, 0.25]}),
        ("{'epoch': 0.1,\n 'reward': 0.5,\n 'kl': 1}\n{'epoch': 0.2,\n 'reward': 0.25,\n 'kl': 2}\n",
         {"reward_mean": [0.5, 0.25], "kl": [1, 2], "epoch": [0.1, 0.2]}),
    ],
    ids=["comment", "decimal comma", "JSON documents", "mappings over many lines"],
)  # fmt: skip
def test_rows_as_others_lay_them_out(tmp_path: Path, text: str, wanted: dict[str, list[float]]) -> None:
    run = run_of(tmp_path, "x", text)
    assert (run.steps.tolist(), known(run)) == ([1, 2], wanted)


def test_a_table_of_models_is_not_a_log(tmp_path: Path) -> None:
    assert run_of(tmp_path, "x.csv", "model,reward,length\nqwen,0.5,9\nllama,0.25,8\n").run_type == "none"


def test_mlflow_is_one_run_from_any_of_its_files(tmp_path: Path) -> None:
    metrics = tmp_path / "1a2b" / "metrics"
    (metrics / "train").mkdir(parents=True)
    (metrics / "loss").write_text("1700000000000 nan 0\n1700000000100 0.5 10\n", "utf-8")
    (metrics / "train" / "reward").write_text("1700000000000 0.25 0\n1700000000100 0.75 10\n", "utf-8")
    (tmp_path / "1a2b" / "meta.yaml").write_text("name: x\n", "utf-8")
    (tmp_path / "1a2b" / "params").mkdir()
    (tmp_path / "1a2b" / "params" / "num_generations").write_text("8", "utf-8")
    for path in (tmp_path, metrics / "train" / "reward"):
        (run,) = read(path)
        assert (run.format, run.source, run.steps.tolist()) == ("mlflow", str(metrics), [0, 10])
        assert known(run) == {"loss": ["NaN", 0.5], "reward_mean": [0.25, 0.75]}
        assert run.settings == {"group_size": 8}


NAMES = {
    "reward_mean": "ppo/mean_scores exp_scores/mean reward/avg_raw_reward grpo_actor/task_reward/avg Total-rewards-mean ep_rew_mean "
    "loss/avg_final_rewards ppo_actor/final_reward/avg raw_reward_mean Generation-rewards-avg total_reward reward/total combined_reward episode_return Average-reward-score rm MeanRet",
    "success_rate": "successes succ Reward_pct rewards/accuracies rewards_train/accuracies Rewards/accuracies preference_accuracy",
    "chosen_reward": "rewards/chosen rewards_train/chosen chosen_reward Rewards/chosen rewards_chosen_mean",
    "rejected_reward": "rewards/rejected reject_reward rejected_rewards",
    "reward_margin": "rewards/margins reward_margin rewards_margins",
    "chosen_logp": "logps/chosen logps_train/chosen policy_chosen_logps log_probs/chosen",
    "rejected_logp": "logps/rejected log_probs/rejected",
    "grad_norm": "policy/raw_grad_norm raw_grad_norm grpo_actor/update/grad_norm",
    "learning_rate": "train/lr-pg_0 policy/policy_lr policy_lr",
    "truncated_rate": "response_clip_ratio ppo_actor/no_eos_ratios/avg",
    "tool_failure_rate": "tools/failure_frequency tool_error_rate tool/failure_rate tool_call_success_rate",
    "tool_calls_per_response": "tools/call_frequency tool/call_count/mean",
    "turns_per_response": "num_turns/mean num_turns",
    "value_explained_variance": "critic/vf_explained_var train/explained_variance",
    "value_loss": "cri critic/vf_loss",
    "response_length_max": "token/response_length/max",
    "policy_loss": "pg",
    "response_length_mean": "glen",
    "eval_loss": "val_loss eval_loss Test-loss",
    "eval_perplexity": "eval_perplexity eval/ppl val-perplexity test_ppl heldout_ppl",
    "loss": "train_loss dpo_loss sft_loss",
    "live_groups": "batch/solve_partial",
    "kl_coef": "kl_ctl_value objective/kl_coef",
    "clip_fraction": "avg_clip_fraction avg_clipfrac ppo_actor/update/clip_ratio/avg",
    "kl": "avg_exact_kl policy/policy_kl policy_kl kl_from_ref",
    "kl_sequence": "objective/kl",
    "eval_score": "eval/win_rate eval_rewards/accuracies rewards_eval/accuracies",
    "zero_variance_share": "zero-std zero_std_frac",
    "": "rewards/accuracy/mean eval_rewards/margins eval_logps/chosen policy/kl approx_kl seq_len critic/returns/mean reward/avg_pass_at_8 critic/lr num_tool_calls tool_calls perplexity rollout_corr/training_ppl",
}


@pytest.mark.parametrize(("field", "key"), [(field, key) for field, keys in NAMES.items() for key in keys.split()])
def test_names_of_trainers(field: str, key: str) -> None:
    assert [alias.field for alias in resolve(key)] == [field] * bool(field)


def test_names_of_our_own() -> None:
    named = {name: [alias.field for alias in resolve(name)] for name in NUMBER_FIELDS if declared(name) is None}
    assert len(named) > 70
    assert named == {name: [name] for name in named}


def test_environment_settings_apply_to_the_policy_only_for_groups_and_turns() -> None:
    names = ("env.max_steps", "env.rollout.n", "env.seed", "trainer.max_steps", "critic.optim.lr")
    assert [declared(name) for name in names] == ["max_turns", "group_size", None, "max_steps", None]


TEXT = '{"step": 1, "reward": 0.5, "loss": NaN}\n{"step": 2, "reward": 0.75, "loss": 1.5}\n'


@pytest.mark.parametrize(
    "pack",
    [gzip.compress, zstandard.compress, lambda b: ("\ufeff" + b.decode()).encode("utf-16-le"), lambda b: b + b"\0\0"],
    ids=["gz", "zst", "utf-16", "nul"],
)
def test_packed(tmp_path: Path, pack) -> None:  # type: ignore[no-untyped-def]
    run = run_of(tmp_path, "metrics.jsonl", pack(TEXT.encode()))
    assert known(run) == {"reward_mean": [0.5, 0.75], "loss": ["NaN", 1.5]}


def test_torn_gzip_gives_what_it_holds(tmp_path: Path) -> None:
    import random

    noise = random.Random(1)
    text = "".join(f'{{"step": {i}, "reward": {noise.random()}}}\n' for i in range(60_000))
    packed = gzip.compress(text.encode())
    run = run_of(tmp_path, "m.jsonl.gz", packed[: int(len(packed) * 0.9)])
    assert len(run) > 10_000
    assert any("incomplete" in note for note in run.notes)


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))
    (run,) = read(Path("-"))
    assert (run.source, len(run)) == ("standard input", 2)


def test_map_reads_a_key_as_a_field(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    path.write_text('{"step": 1, "my/number": 0.5}\n{"step": 2, "my/number": 0.25}\n', encoding="utf-8")
    (run,) = read(path, {"my/number": "entropy_mean"})
    assert (known(run), run.mapping) == ({"entropy_mean": [0.5, 0.25]}, {"my/number": "entropy_mean"})


def test_an_unrewarded_metric_is_found_by_its_values(tmp_path: Path) -> None:
    def of(mean: str, scale: float = 1.0) -> Run:
        rows = []
        for i in range(12):
            f, g = scale * 0.01 * (i * 7 % 5), 0.1 + 0.05 * i
            row = {"step": i, "reward/f": f, "reward/g": g, "reward/g_minus_f": g - f}
            rows.append(row | {"reward/mean": g if mean == "g" else f + g})
        return run_of(tmp_path, "m.jsonl", "\n".join(map(json.dumps, rows)))

    hacked, honest = of("g"), of("sum")
    assert hacked.mapping["reward/f"] == "success_rate"
    assert known(hacked)["success_rate"][1] == pytest.approx(0.02)
    assert "success_rate" not in honest.columns
    assert "success_rate" not in of("g", scale=100).columns  # a share is at most 1


@pytest.mark.parametrize(
    ("rows", "kind"),
    [
        ([{"loss": 0.6, "rewards/chosen": 0.1, "rewards/margins": 0.2, "step": i} for i in (1, 2)], "preference"),
        ([{"current_steps": i, "total_steps": 9, "loss": 0.6, "accuracy": 0.5, "percentage": 10.0 * i,
           "elapsed_time": "0:00:26", "remaining_time": "0:14:35"} for i in (1, 2)], "preference"),
        ([{"loss": 0.6, "rewards_chosen": 0.1, "rewards_rejected": 0.2, "step": i} for i in (1, 2)], "preference"),
        ([{"loss": 0.6, "chosen_reward": 0.1, "reject_reward": 0.2, "step": i} for i in (1, 2)], "preference"),
        ([{"loss": 0.6, "accuracy_reward": 0.1, "rejected": 2, "step": i} for i in (1, 2)], "rl"),
        ([{"loss": 2.5, "grad_norm": 1.0, "mean_token_accuracy": 0.5, "entropy": 1.1, "step": i} for i in (1, 2)], "supervised"),
        ([{"loss": 0.6, "success_rate": 0.5, "step": i} for i in (1, 2)], "rl"),
        ([{"loss": 0.6, "accuracy": 0.5, "step": i} for i in (1, 2)], "supervised"),
        ([{"loss": 0.6, "eval_success_rate": 0.5, "step": i} for i in (1, 2)], "supervised"),
        ([{"eval_reward": 0.5, "step": i} for i in (1, 2)], "evaluation"),
        ([{"name": "x", "size": 3}, {"name": "y", "size": 4}], "none"),
    ],
)  # fmt: skip
def test_run_types(tmp_path: Path, rows: list[dict[str, object]], kind: str) -> None:
    assert run_of(tmp_path, "m.jsonl", "\n".join(map(json.dumps, rows))).run_type == kind


def test_the_only_reward_is_the_reward_and_one_of_several_is_not(tmp_path: Path) -> None:
    rows = [{"step": i, "loss": 0.1, "env_reward": i / 4} for i in (1, 2)]
    run = run_of(tmp_path, "x.jsonl", "\n".join(map(json.dumps, rows)))
    assert known(run) == {"loss": [0.1, 0.1], "reward_mean": [0.25, 0.5]}
    assert run.notes == ["env_reward is the only reward key and is used as the reward"]
    two = run_of(tmp_path, "y.jsonl", "\n".join(json.dumps(row | {"format_reward": 1}) for row in rows))
    assert set(two.columns) == {"loss", "reward_components"}


def test_a_success_rate_replaces_an_unrecorded_reward(tmp_path: Path) -> None:
    rows = [{"step": i, "pass@1": i / 4, "kl": 0.1} for i in (1, 2)]
    run = run_of(tmp_path, "x.jsonl", "\n".join(map(json.dumps, rows)))
    assert known(run) == {"success_rate": [0.25, 0.5], "kl": [0.1, 0.1], "reward_mean": [0.25, 0.5]}
    assert run.mapping["pass@1"] == "success_rate, reward_mean"
    assert run.notes == ["the success rate 'pass@1' is used as the reward"]
    paid = run_of(tmp_path, "y.jsonl", "\n".join(json.dumps(row | {"reward": 1.0}) for row in rows))
    assert known(paid)["reward_mean"] == [1.0, 1.0]


def test_unavailable_metrics_are_unknown(tmp_path: Path) -> None:
    none = {"available": False, "reason": "not a metric of this trainer", "value": None}
    rows = [{"step": i, "reward": none, "kl": none, "loss": {"available": True, "value": 1 / i}} for i in (1, 2)]
    run = run_of(tmp_path, "x.jsonl", "\n".join(map(json.dumps, rows)))
    assert (run.run_type, known(run)) == ("supervised", {"loss": [1, 0.5]})


def test_a_file_that_is_not_a_log_is_reported_so(tmp_path: Path) -> None:
    for name, text in (("a.py", "import os\nstep = 3\nloss = 1\n"), ("b.txt", "Chapter 1\nIt was 1984.\n"), ("c", "")):
        run = run_of(tmp_path, name, text)
        assert (run.run_type, len(run)) == ("none", 0)
        assert run.notes
    (tmp_path / "x.bin").write_bytes(bytes(range(256)) * 40)
    with pytest.raises(ReadError, match="binary data"):
        read(tmp_path / "x.bin")


@pytest.mark.parametrize(
    ("key", "field"),
    [
        ("sampling/sampling_logp_difference/mean", "rollout_logp_diff"),
        ("sampling/sampling_logp_difference/max", "rollout_logp_diff_max"),
        ("sampling/importance_sampling_ratio/mean", "rollout_weight_mean"),
        ("training/rollout_probs_diff_mean", "rollout_prob_diff"),
        ("training/rollout_probs_diff_max", "rollout_prob_diff_max"),
        ("training/rollout_actor_probs_pearson_corr", "rollout_prob_correlation"),
        ("rollout_corr/k3_kl", "rollout_mismatch_kl"),
        ("rollout_corr/rollout_is_max", "rollout_weight_max"),
        ("train/train_rollout_logprob_abs_diff", "rollout_logp_diff"),
        ("train/tis", "rollout_weight_mean"),
        ("train/token_mult_prob_error", "rollout_mult_prob_error"),
        ("policy/rollout_train_logprobs_abs_diff_mean", "rollout_logp_diff"),
        ("debug/vllm_vs_local_logprob_diff_mean", "rollout_logp_diff"),
        ("mismatch_kl/all/mean", "rollout_mismatch_kl"),
        ("ppo_actor/update/behave_imp_weight/avg", "rollout_weight_mean"),
        ("eval/pass_at_1", "eval_score"),
        ("dev/gsm8k_f1", "eval_score"),
        ("zvf", "zero_variance_share"),
        ("groups_skipped", "zero_variance_groups"),
        ("groups_total", "groups"),
        ("teacher_kl", "teacher_kl"),
        ("eval/rewards/format/mean", None),
        ("eval/accuracy_std", None),
        ("actor/train_infer_diff_mean", None),
        ("env/reward_mean", "reward_mean"),
        ("train_episodes/reward", "reward_mean"),
        ("ppo_policy/grad_norm", "grad_norm"),
        ("ppo_value/grad_norm", None),
        ("iterations_objective/rewards", "reward_mean"),
        ("iterations_objective/kl", None),
        ("train_episodes/kl", None),
        ("val_episodes/reward", "eval_score"),
        ("kl_divs", "kl"),
        ("clip_fracs", "clip_fraction"),
        ("grad_norms", "grad_norm"),
        ("success_rates", "success_rate"),
        ("val_accs", "eval_score"),
        ("lrs", "learning_rate"),
        ("val_chosen_rewards", None),
        ("val_reward_margin", None),
        ("val_reward_accuracy", "eval_score"),
        ("corrects", None),
        ("wins", None),
    ],
)
def test_keys_that_say_whether_generator_and_trainer_agree(key: str, field: str | None) -> None:
    assert [alias.field for alias in resolve(key)] == ([field] if field else [])


def test_reward_functions_are_recognised_in_a_header_without_slashes(tmp_path: Path) -> None:
    rows = [{"step": i, "reward": 0.5, "rewards_format_mean": 0.5, "rewards_exact_mean": 0.0} for i in range(3)]
    run = run_of(tmp_path, "log.jsonl", "\n".join(map(json.dumps, rows)))
    assert run.columns["reward_components"][0] == {"format": 0.5, "exact": 0.0}


def test_differences_that_were_not_computed_are_unknown(tmp_path: Path) -> None:
    """verl's calculate_debug_metrics returns zeros with valid 0 where rollout log-probabilities are missing."""
    rows = [
        {"step": i, "critic/score/mean": 0.1 * i, "training/rollout_probs_diff_valid": i % 2,
         "training/rollout_probs_diff_mean": 0.02 * (i % 2)}
        for i in range(1, 5)
    ]  # fmt: skip
    run = run_of(tmp_path, "log.jsonl", "\n".join(map(json.dumps, rows)))
    assert known(run)["rollout_prob_diff"] == [0.02, None, 0.02, None]


def test_a_share_is_computed_from_its_counts(tmp_path: Path) -> None:
    rows = [{"step": i, "reward": 0.1 * i, "truncated_count": i, "rollout_count": 8} for i in range(1, 5)]
    run = run_of(tmp_path, "log.jsonl", "\n".join(map(json.dumps, rows)))
    assert known(run)["truncated_rate"] == [0.125, 0.25, 0.375, 0.5]


def test_whole_numbers_of_truncated_responses_are_counts(tmp_path: Path) -> None:
    rows = [{"step": i, "reward": 0.1 * i, "truncated": i} for i in range(1, 5)]
    run = run_of(tmp_path, "log.jsonl", "\n".join(map(json.dumps, rows)))
    note = "truncated is probably a count, because its values are whole numbers; it is not read as a share"
    assert note in run.notes
    assert "truncated_rate" not in known(run)
    rows = [row | {"truncated": row["truncated"] + 0.5} for row in rows]
    run = run_of(tmp_path, "log.jsonl", "\n".join(map(json.dumps, rows)))
    assert known(run)["truncated_rate"] == pytest.approx([0.015, 0.025, 0.035, 0.045])


def test_the_share_of_passed_unit_tests_is_not_a_held_out_score(tmp_path: Path) -> None:
    rows = [{"step": i, "reward": 0.1 * i, "test_pass_ratio": 0.2, "test_accuracy": 0.3} for i in range(1, 5)]
    run = run_of(tmp_path, "log.jsonl", "\n".join(map(json.dumps, rows)))
    assert (run.mapping["test_pass_ratio"], run.mapping["test_accuracy"]) == ("success_rate", "eval_score")


def test_held_out_scores_that_only_verl_writes_are_those_of_a_training(tmp_path: Path) -> None:
    """As exported from Weights & Biases without other metrics; other scores alone may belong to any evaluation."""
    for key, kind in (("run - val-core/gsm8k/acc/mean@1", "rl"), ("run - eval/score", "evaluation")):
        rows = "".join(f'"{5 * i}","0.{40 + i}"\n' for i in range(12))
        run = run_of(tmp_path, "a.csv", f'"Step","{key}"\n{rows}')
        assert (run.run_type, known(run)["eval_score"]) == (kind, [(40 + i) / 100 for i in range(12)])


def test_the_perplexity_of_an_evaluation_is_not_a_score_of_it(tmp_path: Path) -> None:
    rows: list[dict[str, float]] = [{"step": i, "train_reward": i / 16} for i in range(1, 9)]
    for row in rows[3::4]:
        row |= {"eval_reward": row["train_reward"] / 2, "eval_perplexity": 3 + row["step"]}
    run = run_of(tmp_path, "log.jsonl", "\n".join(map(json.dumps, rows)))
    assert known(run)["eval_perplexity"] == [None] * 3 + [7] + [None] * 3 + [11]
    assert known(run)["eval_score"] == [None] * 3 + [0.125] + [None] * 3 + [0.25]


@pytest.mark.parametrize(("loss", "kind"), [(0.0, "supervised"), (-0.01, "rl")])
def test_a_loss_below_0_is_not_a_cross_entropy(tmp_path: Path, loss: float, kind: str) -> None:
    rows = [{"step": n, "avg_loss": [0.02, loss][n % 2], "acc": 0.9} for n in range(10)]
    assert run_of(tmp_path, "m.jsonl", "\n".join(map(json.dumps, rows))).run_type == kind


def test_success_and_held_out_scores_at_each_step_are_a_training(tmp_path: Path) -> None:
    """A history that was exported with its scores alone."""
    rows = [
        "step,episode/success_rate,val/success_rate",
        *(f"{n},0.{n + 10},{'0.3' if n % 5 == 0 else ''}" for n in range(1, 21)),
    ]
    path = tmp_path / "history.csv"
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    (run,) = read(path)
    assert (run.run_type, len(run)) == ("rl", 20)
