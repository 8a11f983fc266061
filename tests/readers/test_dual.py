"""The fairness/hallucination trainer: every version of its console output, the one-line form, and its step metrics."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_doctor.readers import read
from grpo_doctor.run import Run
from tests.corpus_path import CORPUS, needs_corpus

LOGITS = """
🔍 [Step {step}] Logits Distribution Debug ({label}):
   Temperature: 1.1
   Max logit: {logit}
   Gap (1st-2nd): {gap}
   Top-5 probs: [9.9999e-01 1.2000e-06 8.0000e-07
 5.0000e-07 1.0000e-07]
   Max prob: 0.999990
"""

BOUNDARY = """
[模板/边界核查] Step 0
out.shape=torch.Size([8, 301]), src_lens[:3]=[200, 200, 200]
样本 0 (原始prompt索引0):
  Prompt长度(含padding): 200 tokens (非padding: 150 tokens)
  Response长度: 12 tokens
  Token统计:
    Prompt: 52个<|eot_id|> tokens, 50个padding
    Response: 3个<|eot_id|> tokens
  ⚠️ 异常: Response包含3个<|eot_id|> tokens（正常≤1）
  ⚠️ 警告: pad_token_id == eot_token_id (128009)，padding会显示为<|eot_id|>
  ⚠️ 异常: Response开头似乎包含chat header
样本 1 (原始prompt索引0):
  Token统计:
    Response: 1个<|eot_id|> tokens
"""

GENERATION_A = """
[Fairness诊断@step1] 发现 2 个Fairness样本（共4个）
样本 #0 (batch内索引0):
  Prompt: Who is older?
  Generated: I cannot tell.
  Length: 4 tokens
  Truncated: False
  Reward (原始): 0.500
  Reward (归一化后): 1.200
  Entropy: 0.100 ⚠️ 熵塌陷!
样本 #1 (batch内索引1):
  Prompt: Who is older?
  Generated: I cannot
  Length: 2 tokens
  Truncated: True
  Reward (原始): -0.100
  Reward (归一化后): -1.200
  Entropy: 1.900 ✓ 正常
  Fairness整体熵统计: mean=1.000, min=0.100, max=1.900
"""

GENERATION_B = """
[诊断1: Batch Composition@step1] 1 Fairness样本:
  Sample #0: context=ambig, category=Age
[Judge@step1] time=6.2s providers={'openai': 6, 'heuristic': 2}
[诊断2: Reward Scale@step1] FAIRNESS_REWARD_SCALE=0.7
  Before scale: [0.88 0.88
 0.88 0.4]
  After scale:  [0.616 0.616
 0.616 0.28 ]
  Std before: 0.24, after: 0.168
[诊断3: Reward Normalization@step1]
  Before norm: mean=0.5320, std=0.168000
  After norm:  mean=-0.0000, std=1.680000
  EMA stats: mean=0.5320, std=0.1000
[Fairness诊断@step1] Entropy: mean=0.034, min=0.022, max=0.048 ⚠️ 熵塌陷!
[诊断6: Advantage计算@step1]
  组1 (hallucination): std=0.000000 < 0.01 → adv=0 (零梯度)
    Rewards: [1.5 1.5 1.5 1.5]
📊 零梯度组监控 (Step 0):
  Fairness:
    实际: 0/4 (0.0%)
    期望: 17.2% (成功率 p=0.62)
    状态: ✅ 正常
⚠️ [Step 1] 1/2 组(50.0%)的reward std<0.01，梯度信号被抹平
[零梯度组诊断@step1] 组1的4个candidates:
[Reward Scale@step1] F: std=0.168, H: std=0.000 | Signal: F=0.1500, H=0.0000
  ⚠️  严重失衡: F/H=9.00
🔬 [Loss组件诊断 @step1]
Fairness Loss组件:
  Reward项(负surrogate): +0.0023
  KL项(β=0.0500): +0.0504  (raw_kl=1.0071)
  Entropy项(coef=6.0): -0.2047  (raw_entropy=0.0341)
  → Total Fairness Loss: -0.1520
Hallucination Loss组件:
  Reward项(负surrogate): -0.0003
  KL项(β=0.0300): +0.0138  (raw_kl=0.4603)
  Entropy项(coef=6.0): -6.9350  (raw_entropy=1.1558)
  → Total Hallucination Loss: -6.9215
整体:
  Overall Loss: -3.5368
📝 [样本诊断 Step 1] 前3个生成样本内容：
样本 #0 (Fairness) ✅完整:
  Token长度: 42
  Response 完整内容:
    Answer: C
    Justification: none

⚠️ [步骤1] 截断率过高(F:0.0%, H:25.0%)
  当前max_new_tokens=96（配置上限=96）
  建议：(1)降低temperature=0.75 (2)增大rep_penalty=1.3
       (3)增大presence_penalty=0.7 (4)优化prompt要求简洁
[诊断1: Batch Composition@step2] 1 Fairness样本:
[Fairness诊断@step2] Entropy: mean=0.074, min=0.047, max=0.096 ⚠️ 熵塌陷!
[Reward Scale@step2] F: std=0.130, H: std=0.322 | Signal: F=0.1500, H=0.2595
[BranchedKL@20] Fairness拉格朗日: KL=0.318(目标0.040), β_f: 0.1000→0.1278 (Δ+0.0278); Hallucination拉格朗日: KL=0.100(目标0.115), β_h: 0.3000→0.2985 (Δ-0.0015)
[QuickEval@20] mode=greedy fairness=0.452  hallucination=0.498
  截断率: F=10.0%  H=30.0%  |  生成长度: F=64.5  H=51.5
  KL散度: F=0.035  H=0.095  |  β值: F=0.1278  H=0.2985
[诊断1: Batch Composition@step21] 1 Fairness样本:
"""


def console(tmp_path: Path, text: str) -> Run:
    path = tmp_path / "train.log"
    path.write_text(text, encoding="utf-8")
    (run,) = read(path)
    assert run.format == "dual-console"
    return run


def column(run: Run, name: str) -> list[float]:
    return [round(value, 10) for value in run.columns[name].tolist()]


def test_logits_block_counts_from_zero_and_is_averaged_before_clipping(tmp_path: Path) -> None:
    blocks = [
        LOGITS.format(step=0, label="raw", logit=31.0, gap=8.0),
        LOGITS.format(step=0, label="raw", logit=33, gap=9.0),
    ]
    clipped = LOGITS.format(step=0, label="post-clip", logit=0.0, gap=99.0)
    later = LOGITS.format(step=1, label="before clip", logit=20.5, gap=3.25)
    run = console(tmp_path, "".join(blocks) + clipped + "[Fairness诊断@step1] Entropy: mean=0.032\n" + later)
    assert run.steps.tolist() == [1, 2]
    assert column(run, "logit_max") == [32.0, 20.5]
    assert column(run, "logit_gap") == [8.5, 3.25]
    assert column(run, "top1_prob") == [0.99999, 0.99999]
    assert run.columns["topk_probs"][0] == [0.99999, 1.2e-06, 8e-07, 5e-07, 1e-07]
    assert column(run, "temperature") == [1.1, 1.1]


def test_boundary_block(tmp_path: Path) -> None:
    run = console(tmp_path, BOUNDARY + "[Fairness诊断@step1] Entropy: mean=0.032\n")
    assert run.steps.tolist() == [1]
    assert column(run, "eot_per_response") == [2.0]
    assert column(run, "chat_header_rate") == [0.5]
    assert run.settings["pad_equals_eot"] is True
    assert [event.message for _, event in run.all_events()] == [
        "response holds 3 <|eot_id|> tokens",
        "pad_token_id equals eot_token_id",
        "a response seems to begin with a chat header",
    ]


def test_generation_a(tmp_path: Path) -> None:
    run = console(tmp_path, GENERATION_A)
    assert run.steps.tolist() == [1]
    assert [column(run, f"entropy_{name}")[0] for name in ("mean", "min", "max")] == [1.0, 0.1, 1.9]
    assert run.columns["by_task"][0] == {
        "fairness": {
            "entropy_mean": 1.0,
            "response_length_mean": 3.0,
            "truncated_rate": 0.5,
            "reward_mean": pytest.approx(0.2),
        }
    }
    assert [sample.response for sample in run.samples[0]] == ["I cannot tell.", "I cannot"]
    alone = ("reward_mean", "response_length_mean", "truncated_rate")  # they represent the run, as entropy does
    assert [column(run, name)[0] for name in alone] == [0.2, 3.0, 0.5]


def test_generation_b_first_step(tmp_path: Path) -> None:
    run = console(tmp_path, GENERATION_B)
    assert run.steps.tolist() == [1, 2, 20]
    first = {name: run.columns[name][0] for name in run.columns if name != "by_task"}
    assert first == pytest.approx(
        {
            "judge_failure_rate": 0.25,
            "entropy_mean": 0.034,
            "entropy_min": 0.022,
            "entropy_max": 0.048,
            "zero_variance_groups": 1.0,
            "groups": 2.0,
            "entropy_coef": 6.0,
            "entropy_loss": -0.2047,
            "loss": -3.5368,
            "policy_loss": 0.001,
            "kl": 0.7337,
            "kl_coef": 0.04,
            "kl_loss": 0.0321,
            "truncated_rate": 0.125,
            "max_new_tokens": 96.0,
            "reward_mean": 0.532,
            "reward_std": 0.168,
            "response_length_mean": math.nan,
            "eval_score": math.nan,
        },
        nan_ok=True,
    )
    assert run.settings == {
        "fairness_reward_scale": 0.7,
        "group_size": 4.0,
        "temperature": 0.75,
        "repetition_penalty": 1.3,
        "presence_penalty": 0.7,
    }
    assert [(s.task, s.response) for s in run.samples[0]] == [("fairness", "Answer: C\nJustification: none")]


def test_generation_b_by_task(tmp_path: Path) -> None:
    fairness, other = console(tmp_path, GENERATION_B).columns["by_task"][0].values()
    assert fairness["group_rewards"] == [[0.616, 0.616, 0.616, 0.28]]
    assert (fairness["groups"], fairness["zero_variance_groups"]) == (1.0, 0.0)
    assert (other["groups"], other["zero_variance_groups"]) == (1.0, 1.0)
    assert (fairness["success_rate"], fairness["reward_ema_std"], fairness["kl"]) == (0.75, 0.1, 1.0071)
    assert (fairness["signal"], other["signal"], other["entropy_mean"]) == (0.15, 0.0, 1.1558)
    assert (fairness["reward_std"], other["reward_std"], other["truncated_rate"]) == (0.168, 0.0, 0.25)


def test_a_complete_step_without_the_line_has_no_zero_variance_groups(tmp_path: Path) -> None:
    run = console(tmp_path, GENERATION_B)
    assert column(run, "zero_variance_groups")[:2] == [1.0, 0.0]
    assert column(run, "groups")[:2] == [2.0, 2.0]
    assert np.isnan(run.columns["zero_variance_groups"][2])


def test_kl_control_and_quick_eval(tmp_path: Path) -> None:
    run = console(tmp_path, GENERATION_B)
    last = {
        name: run.columns[name][2] for name in ("eval_score", "truncated_rate", "response_length_mean", "kl", "kl_coef")
    }
    assert last == pytest.approx(
        {"eval_score": 0.475, "truncated_rate": 0.2, "response_length_mean": 58.0, "kl": 0.065, "kl_coef": 0.21315}
    )


def test_the_monitor_of_zero_gradient_groups_is_skipped_and_reported(tmp_path: Path) -> None:
    run = console(tmp_path, GENERATION_B)
    assert any("monitor of zero-gradient groups takes each response for a group" in note for note in run.notes)


def test_nothing_is_read_from_the_tautology_of_the_eos_suppressor(tmp_path: Path) -> None:
    text = (
        "[EOS Suppressor] 初始化: min_new_tokens=5, eos_token_ids=[128001, 128009]\n"
        "[EOS Suppressor] 首次调用: prompt_len=200, batch=8, min=5\n"
        "\n[EOS Supp] Call#1: gen=0/5\n  EOS 128009 before: [3.1 2.0]\n  EOS 128009 after:  [-inf -inf]\n  ✓ 已阻止 8/8 个样本\n"
        "[Fairness诊断@step1] Entropy: mean=0.032, min=0.018, max=0.066\n"
    )
    run = console(tmp_path, text)
    assert "eos_suppressed_rate" not in run.columns
    assert run.settings["min_new_tokens"] == 5.0
    assert any("no trigger rate was read" in note for note in run.notes)


ONE_LINE = """[Step {step} Logits] Max logit={logit}, Gap={gap}, Top5=[{top}, 0.0001, ...]
[Fairness诊断] Entropy(mean)={entropy}
EOS Suppressor 触发率: {percent}% ({blocked}/8)
"""


def test_one_line_form(tmp_path: Path) -> None:
    rows = [(1, 31, 8.2, 0.999, 0.005, 50, 4), (2, "30-32", "7-10", "0.70-0.90", "0.005-0.05", 100, 8)]
    names = ("step", "logit", "gap", "top", "entropy", "percent", "blocked")
    run = console(tmp_path, "".join(ONE_LINE.format(**dict(zip(names, row, strict=True))) for row in rows))
    assert run.steps.tolist() == [1, 2]
    assert column(run, "logit_max") == [31.0, 31.0]
    assert column(run, "logit_gap") == [8.2, 8.5]
    assert column(run, "top1_prob") == [0.999, 0.8]
    assert column(run, "entropy_mean") == [0.005, 0.0275]
    assert column(run, "eos_suppressed_rate") == [0.5, 1.0]


def test_one_line_form_without_steps_counts_them(tmp_path: Path) -> None:
    run = console(tmp_path, "".join(f"[Fairness诊断] Entropy(mean)={value}\n" for value in (0.5, 0.4, 0.3)))
    assert run.steps.tolist() == [1, 2, 3]
    assert column(run, "entropy_mean") == [0.5, 0.4, 0.3]


HEADER = "step,loss,kl_f,kl_h,kl_overall,beta_f,beta_h,grad_cosine_sim,reward_f_mean,gen_len_f_mean,gen_len_h_mean,provider_openai,provider_heuristic,nan_inf_hits,lr\n"


def test_step_metrics_as_csv(tmp_path: Path) -> None:
    path = tmp_path / "train_step_metrics.csv"
    path.write_text(HEADER + "1,nan,1.0,0.5,0.75,0.05,0.15,-0.2,0.1,40,60,6,2,1,5e-06\n2,0.5\n", encoding="utf-8")
    (run,) = read(path)
    assert (run.format, run.steps.tolist()) == ("dual-metrics", [1])
    assert math.isnan(run.columns["loss"][0])
    assert [column(run, name) for name in ("kl", "kl_coef", "response_length_mean", "learning_rate")] == [
        [0.75], [0.1], [50.0], [5e-06]
    ]  # fmt: skip
    assert column(run, "judge_failure_rate") == [0.25]
    assert run.columns["by_task"][0]["hallucination"] == {"kl": 0.5, "kl_coef": 0.15, "response_length_mean": 60.0}
    assert {e.message for _, e in run.all_events()} == {
        "loss is NaN",
        "the trainer skipped 1 NaN or infinite loss",
    }
    assert run.unread == {"grad_cosine_sim": 1}
    assert run.notes[-1] == "line 3 is incomplete and was skipped"


def test_step_metrics_as_jsonl(tmp_path: Path) -> None:
    path = tmp_path / "train_step_metrics.jsonl"
    row = (
        '{"step": 7, "loss": NaN, "kl_f": 1.0, "kl_h": 0.5, "kl_overall": 0.75, "beta_f": 0.1, "grad_cosine_sim": 0.0}'
    )
    path.write_text(row + "\n{torn", encoding="utf-8")
    (run,) = read(path)
    assert (run.format, run.steps.tolist(), column(run, "kl")) == ("dual-metrics", [7], [0.75])
    assert math.isnan(run.columns["loss"][0])


@needs_corpus
def test_the_log_of_6075bf1() -> None:
    (run,) = read(CORPUS / "seed-dual" / "Logging_6075bf1.txt")
    assert run.steps.tolist() == [1, 2, 3, 4]
    assert column(run, "entropy_mean") == [0.032, 0.059, 0.05, 0.055]
    assert column(run, "zero_variance_groups") == [2.0, 1.0, 2.0, 2.0]
    dead = [
        [row[task]["zero_variance_groups"] for task in ("fairness", "hallucination")] for row in run.columns["by_task"]
    ]
    assert dead == [[2.0, 0.0], [1.0, 0.0], [2.0, 0.0], [0.0, 2.0]]
    for row in run.columns["by_task"]:  # the rewards themselves say the same as the trainer's lines
        alike = sum(max(group) - min(group) < 1e-8 for group in row["fairness"]["group_rewards"])
        assert alike == row["fairness"]["zero_variance_groups"]
    assert (run.settings["temperature"], run.settings["group_size"]) == (0.75, 4.0)
    assert [len(run.samples[row]) for row in run.samples] == [3, 3, 3]


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_damaged_text_is_read_without_a_crash(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    whole = GENERATION_B + GENERATION_A + BOUNDARY + LOGITS + ONE_LINE
    text = list(whole)
    for _ in range(data.draw(st.integers(1, 40))):
        at = data.draw(st.integers(0, len(text) - 1))
        text[at] = data.draw(
            st.sampled_from(["", "\n", "9" * 30, "-", ".", "e", "nan", "[", "]", "%", "\0", "1e9", "²", "inf"])
        )
    path = tmp_path_factory.getbasetemp() / "damaged.log"
    path.write_text("[Fairness诊断@step1] Entropy: mean=0.5\n" + "".join(text), encoding="utf-8")
    (run,) = read(path)
    assert run.format == "dual-console"
    assert len(run) >= 1


@pytest.mark.parametrize("step", ["nan", "inf", "-1", "1e300", "", "x"])
def test_a_row_of_step_metrics_without_a_usable_step_is_left_out(tmp_path: Path, step: str) -> None:
    path = tmp_path / "train_step_metrics.csv"
    path.write_text(HEADER + ",".join([step, *["0"] * 14]) + "\n", encoding="utf-8")
    (run,) = read(path)
    assert len(run) == 0
    assert run.notes[-1] == "line 2 has no step and was skipped"
