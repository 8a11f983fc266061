"""Names that the frameworks of 2026 log for text health, tools, off-policyness, the critic and the batch.

Each row of `LOGGED` names the source that writes the key, at the commit or the release that was read.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from grpo_doctor.readers.aliases import resolve

from .make import known, run_of

LOGGED = [
    # verl 0.9.1, verl/trainer/ppo/rollout_corr_helper.py (prefix rollout_corr/)
    ("rollout_corr/rollout_is_eff_sample_size", "effective_sample_share"),
    ("rollout_corr/rollout_is_mean", "rollout_weight_mean"),
    ("rollout_corr/rollout_is_std", "rollout_weight_std"),
    ("rollout_corr/rollout_is_min", "rollout_weight_min"),
    ("rollout_corr/rollout_is_max", "rollout_weight_max"),
    ("rollout_corr/rollout_rs_masked_fraction", "weight_clip_fraction"),
    ("rollout_corr/rollout_is_oob_ratio", "weight_clip_fraction"),
    # verl 0.9.1, verl/trainer/ppo/metric_utils.py
    ("response/aborted_ratio", "aborted_rate"),
    ("tool_call_counts/mean", "tool_calls_per_response"),
    ("num_turns/mean", "turns_per_response"),
    ("critic/vf_explained_var", "value_explained_variance"),
    # verl 0.9.1, verl/workers/utils/losses.py
    ("critic/vf_clipfrac", "value_clip_fraction"),
    ("critic/vf_loss", "value_loss"),
    # verl 0.9.1, verl/trainer/ppo/v1/trainer_base.py
    ("training/off_policy/trajectory_staleness/mean", "staleness"),
    ("training/off_policy/trajectory_staleness/max", "staleness_max"),
    # TRL 1.16, trl/trainer/grpo_trainer.py; experimental/async_grpo/async_rollout_worker.py
    ("sampling/importance_sampling_ratio/mean", "rollout_weight_mean"),
    ("sampling/sampling_logp_difference/mean", "rollout_logp_diff"),
    ("tools/call_frequency", "tool_calls_per_response"),
    ("tools/failure_frequency", "tool_failure_rate"),
    # slime 624b824a8, slime/observability/rollout_metrics.py and slime/backends/megatron_utils/loss.py
    ("rollout/repetition_frac", "repetition_rate"),
    ("train/tis_clipfrac", "weight_clip_fraction"),
    # prime-rl 559b44772, src/prime_rl/orchestrator/{orchestrator,metrics}.py and trainer/rl/loss.py
    ("off_policy/mean", "staleness"),
    ("off_policy/max", "staleness_max"),
    ("progress/tasks", "prompts_per_update"),
    ("progress/tokens", "tokens_per_update"),
    ("train/agg/all/num_turns/mean", "turns_per_response"),
    ("train/agg/all/cancelled/mean", "aborted_rate"),
    ("train/agg/all/has_error/mean", "environment_failure_rate"),
    ("is_masked/mean", "weight_clip_fraction"),
    # SkyRL 0.3.0, skyrl/train/fully_async_trainer.py, skyrl/train/trainer.py,
    # skyrl/backends/skyrl_train/utils/off_policy_correction_utils.py, skyrl-agent/skyrl_agent/agents/base.py
    ("async/staleness_mean", "staleness"),
    ("async/staleness_max", "staleness_max"),
    ("policy/loss_metrics/is_ratio_mean", "rollout_weight_mean"),
    ("policy/loss_metrics/is_ratio_std", "rollout_weight_std"),
    ("critic/critic_loss", "value_loss"),
    ("rollout_metrics/tool_calls_per_traj_mean", "tool_calls_per_response"),
    ("rollout_metrics/stuck_in_a_loop_ratio", "repetition_rate"),
    # NeMo-RL 7ea279abf, nemo_rl/experience/{rollouts,rollout_manager}.py and nemo_rl/algorithms/ppo.py
    ("train/avg_turns_per_sample", "turns_per_response"),
    ("train/turns_per_sample/mean", "turns_per_response"),
    ("train/critic/explained_var", "value_explained_variance"),
    ("train/global_valid_toks", "tokens_per_update"),
    # AReaL 4aef98d8d, areal/trainer/ppo/{actor,critic}.py
    ("ppo_actor/update/version_stats/sample_staleness_theta_avg", "staleness"),
    ("ppo_actor/update/version_stats/sample_staleness_theta_max", "staleness_max"),
    ("ppo_actor/update/rs_filtered_fraction", "weight_clip_fraction"),
    ("ppo_critic/update/critic_loss/avg", "value_loss"),
    # open-instruct e6c3044aa, open_instruct/grpo_utils.py, environments/tools/utils.py, grpo_fast.py
    ("val/rho_weight", "rollout_weight_mean"),
    ("val/rho_clipfrac", "weight_clip_fraction"),
    ("val/num_step_tokens", "tokens_per_update"),
    ("tools/aggregate/avg_calls_per_rollout", "tool_calls_per_response"),
    ("tools/aggregate/failure_rate", "tool_failure_rate"),
    # OpenRLHF 0.11.2 (3c3be623), openrlhf/trainer/ray/{ppo_actor,ppo_critic}.py
    ("vllm_kl", "rollout_mismatch_kl"),
    ("critic_loss", "value_loss"),
    # tinker-cookbook, a log of shared/logs (env/all)
    ("env/all/turns_per_episode", "turns_per_response"),
    # custom trainers
    ("repetition_rate", "repetition_rate"),
    ("language_mixing_rate", "other_script_rate"),
    ("ess_ratio", "effective_sample_share"),
    ("train/logps/clip_ratio", "clip_fraction"),
    ("train/logps/kl", "kl"),
    # Spinning Up (LossPi, LossV) and CleanRL (v_loss)
    ("LossPi", "policy_loss"),
    ("v_loss", "value_loss"),
    ("rollout/env_error_rate", "environment_failure_rate"),
    # a count, a penalty of the reward and a setting are another thing
    ("ess", None),
    ("effective_sample_size", None),
    ("repetition_penalty", None),
    ("rewards/repetition_penalty/mean", None),
    ("off_policy/dropped", None),
]


@pytest.mark.parametrize(("key", "field"), LOGGED)
def test_a_key_of_a_framework_is_read_as_its_field(key: str, field: str | None) -> None:
    assert [alias.field for alias in resolve(key)] == ([field] if field else [])


def test_a_row_of_verl_holds_what_decides_an_agentic_run(tmp_path: Path) -> None:
    row = {
        "training/global_step": 1, "critic/score/mean": 0.25, "rollout_corr/rollout_is_eff_sample_size": 0.75,
        "response/aborted_ratio": 0.125, "tool_call_counts/mean": 2.0, "critic/vf_explained_var": -0.5,
    }  # fmt: skip
    run = run_of(tmp_path, "log.jsonl", json.dumps(row))
    assert known(run) == {
        "reward_mean": [0.25], "effective_sample_share": [0.75], "aborted_rate": [0.125],
        "tool_calls_per_response": [2.0], "value_explained_variance": [-0.5],
    }  # fmt: skip
