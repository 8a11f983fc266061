"""Cost of a live step with the whole catalogue, early and late in a run, compared with writing the same record.

python -m benchmarks.live [STEPS]
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from grpo_doctor import LiveDoctor, StepRecord
from grpo_doctor.record import encode
from grpo_doctor.run import Sample

AT = (1_000, 10_000, 100_000)
SPAN = 500


LEVELS = {
    "loss": 0.01, "policy_loss": 0.01, "eval_loss": 0.5, "kl_loss": 0.001, "grad_norm": 0.5, "learning_rate": 1e-6,
    "logit_max": 22, "logit_gap": 4, "top1_prob": 0.75, "entropy_mean": 0.7, "entropy_min": 0.5, "entropy_max": 0.9,
    "entropy_coef": 0.01, "entropy_loss": -0.007, "advantage_std": 0.93, "advantage_min": -2, "advantage_max": 2,
    "advantage_rms_live": 0.99, "reward_mean": 0.5, "reward_std": 0.4, "success_rate": 0.4, "valid_rate": 0.98,
    "fallback_rate": 0.02, "eval_score": 0.4, "kl": 0.01, "kl_k1": 0.01, "kl_k3": 0.01, "kl_coef": 0.04,
    "kl_loss_share": 0.05, "kl_grad_share": 0.05, "clip_fraction": 0.01, "ratio_max": 1.3, "rollout_mismatch_kl": 1e-4,
    "rollout_mismatch_raw_kl": 1e-4, "policy_movement_kl": 0.002, "first_token_valid_rate": 0.98,
    "logp_advantage_cov": 0.01, "weight_delta": 0.01, "response_length_mean": 200, "response_length_median": 190,
    "response_length_min": 40, "response_length_max": 500, "truncated_rate": 0.02, "eos_rate": 0.98,
    "eos_probability": 0.005, "eot_per_response": 0.98, "unique_rate": 0.95, "top_pattern_share": 0.03,
    "pattern_entropy": 4.5, "eval_perplexity": 5, "kl_sequence": 2, "rollout_logp_diff": 0.01,
    "rollout_mismatch_k1": 1e-4, "rollout_surprise": 0.6, "trainer_surprise": 0.6,
    "rollout_logp_diff_max": 0.4, "rollout_mult_prob_error": 1.01, "rollout_prob_diff": 0.003,
    "rollout_prob_diff_max": 0.1, "rollout_weight_max": 1.5, "rollout_weight_min": 0.7, "tool_calls_per_response": 1.5,
    "tool_failure_rate": 0.02, "turns_per_response": 2.5, "value_loss": 0.1,
    "rollout_weight_std": 0.1, "weight_clip_fraction": 0.01, "effective_sample_share": 0.95, "staleness_max": 1,
    "value_clip_fraction": 0.01, "repetition_rate": 0.02, "other_script_rate": 0.01, "prompt_echo_rate": 0.01,
    "aborted_rate": 0.01, "environment_failure_rate": 0.01, "prompts_per_update": 32, "tokens_per_update": 60_000,
    "repeated_call_rate": 0.02, "unparsed_call_rate": 0.01, "refusal_rate": 0.01, "prompt_recovery": 0.9,
    "response_chars_mean": 800, "right_chars_mean": 780, "wrong_chars_mean": 820, "length_reward_correlation": 0.05,
    "right_unrewarded_rate": 0.01, "wrong_rewarded_rate": 0.01, "taskless_reward": 0.01, "failures_at_floor": 0.1,
    "reward_after_kl": 0.5,
}  # fmt: skip
"""Usual values of a healthy run; they vary by a twentieth."""
FIXED: dict[str, Any] = {
    "group_size": 8, "groups": 32, "zero_variance_groups": 4, "zero_variance_share": 0.125, "all_correct_groups": 2,
    "all_wrong_groups": 2, "live_groups": 28, "advantage_mean": 0, "advantage_ddof": 1, "reward_min": 0,
    "reward_max": 1, "judge_failure_rate": 0, "ratio_mean": 1, "ratio_first_minibatch": 0, "reward_recomputed_gap": 0,
    "update_applied": True, "eos_suppressed_rate": 0, "prompt_tokens_in_mask": 0, "pad_tokens_in_mask": 0,
    "response_tokens_outside_mask": 0, "chat_header_rate": 0, "generation_training_mode": False,
    "generation_checkpointing": False, "temperature": 1, "top_p": 1, "top_k": 0, "min_new_tokens": 0,
    "max_new_tokens": 512, "rollout_prob_correlation": 0.999, "rollout_weight_mean": 1, "staleness": 0,
    "value_explained_variance": 0.6,
}  # fmt: skip
ELSEWHERE = frozenset("chosen_logp chosen_reward rejected_logp rejected_reward reward_margin teacher_kl".split())
"""Fields that only preference training and distillation record."""
COUNTED = {"epoch": 0.001, "wall_time": 20, "tokens_seen": 60_000, "optimizer_step": 1}
"""Fields that grow by this much per step."""


SETTINGS = {
    "group_size": 8, "normaliser": "group", "advantage_clip": 5.0, "lora_r": 16, "epsilon": 0.2, "entropy_target": 0.5,
    "gradient_checkpointing": False, "lora_dropout": 0.0, "reference": "initial", "max_grad_norm": 1.0,
    "kl_estimator": "k3", "loss_type": "dapo",
}  # fmt: skip
"""Declared settings, so that the checks of settings run, too."""
SAVED = 8
"""Number of responses saved per step, of WORDS words each."""
WORDS = 60


def samples(step: int, rng: random.Random) -> list[Sample]:
    """Return different responses, most of them valid."""
    texts = (" ".join(rng.choices(VOCABULARY, k=WORDS)) for _ in range(SAVED))
    return [Sample(step=step, response=text, reward=rng.random(), valid=rng.random() < 0.98) for text in texts]


VOCABULARY = [f"word{n}" for n in range(2000)]


def record(step: int, rng: random.Random) -> StepRecord:
    """Return a step of a healthy run with all metrics."""
    values: dict[str, Any] = {name: level * rng.gauss(1, 0.05) for name, level in LEVELS.items()}
    values["reward_mean"] *= 1 + step / (step + 1000)
    counted: dict[str, Any] = {name: each * step for name, each in COUNTED.items()}
    return StepRecord(
        step=step, **values, **FIXED, **counted,
        advantage_abs_values=[0.4, 1.1], topk_probs=[0.75, 0.1, 0.05, 0.02, 0.01],
        group_rewards=[[rng.random() for _ in range(8)] for _ in range(32)],
        reward_components={"answer": values["reward_mean"], "form": rng.gauss(0.9, 0.02)},
    )  # fmt: skip


def main(last: int) -> None:
    rng = random.Random(0)
    bare, whole = LiveDoctor(SETTINGS), LiveDoctor(SETTINGS)
    for start in range(0, last, SPAN):  # generated first, so that this is not part of the cost
        steps = [(record(step, rng), samples(step, rng)) for step in range(start, min(start + SPAN, last))]
        alone = [cost(bare.push, known) for known, _ in steps]
        with_texts = [cost(whole.push, known, texts) for known, texts in steps]
        if start + SPAN in AT:
            per_record = statistics.median(cost(encode, known) for known, _ in steps)
            tell(start + SPAN, "records", bare, alone, per_record)
            tell(start + SPAN, f"records with {SAVED} responses", whole, with_texts, per_record)


def cost(function: Callable[..., Any], *arguments: Any) -> float:
    """Return the CPU microseconds of one call."""
    began = time.process_time_ns()
    function(*arguments)
    return (time.process_time_ns() - began) / 1e3


def tell(step: int, what: str, doctor: LiveDoctor, spent: list[float], per_record: float) -> None:
    """Print the time of the last steps."""
    median, least = statistics.median(spent), statistics.quantiles(spent, n=10)[0]
    diagnosis = doctor.diagnosis()
    found = ", ".join(f.code for f in diagnosis.findings) or "no finding"
    print(
        f"step {step:>7}, {what}: {diagnosis.coverage.ran} checks ({found}), {median:.0f} us CPU a step "
        f"({least:.0f} in the fastest tenth), {median / per_record:.0f}x encoding the record",
        flush=True,
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else AT[-1])
