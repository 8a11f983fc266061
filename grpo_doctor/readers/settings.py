"""Names of settings as trainers print them, and the names under which checks ask for them."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from ..run import WORDED
from .values import number

_SETTINGS = """
group_size              num_generations actor_rollout_ref.rollout.n n_samples_per_prompt samples_per_prompt
                    num_return_sequences
                        rollouts_per_prompt k_samples samples_per_question return_sequences_in_group k env.rollout.n
max_turns               max_turns env.max_steps env.max_turns agent.max_turns max_assistant_turns
kl_coef                 beta kl_beta kl_coef kl_coeff init_kl_coef kl_loss_coef algorithm.kl_ctrl.kl_coef
temperature             temperature actor_rollout_ref.rollout.temperature sampling_temperature
top_p                   top_p actor_rollout_ref.rollout.top_p
top_k                   top_k actor_rollout_ref.rollout.top_k
min_new_tokens          min_new_tokens
max_new_tokens          max_completion_length max_new_tokens max_response_length data.max_response_length
                    response_length
entropy_coef            entropy_coef entropy_coeff ent_coef actor_rollout_ref.actor.entropy_coeff
learning_rate           learning_rate lr actor_rollout_ref.actor.optim.lr actor_learning_rate
num_iterations          num_iterations ppo_epochs actor_rollout_ref.actor.ppo_epochs epochs_per_rollout_batch
epsilon                 epsilon cliprange clip_range clip_eps actor_rollout_ref.actor.clip_ratio clip_ratio_low
                    cliprange_low
epsilon_high            epsilon_high clip_ratio_high cliprange_high actor_rollout_ref.actor.clip_ratio_high
loss_type               loss_type policy_loss.loss_mode loss_mode
scale_rewards           scale_rewards
normaliser              normaliser
advantage_ddof          advantage_ddof
adv_estimator           adv_estimator algorithm.adv_estimator
norm_adv_by_std         norm_adv_by_std_in_grpo algorithm.norm_adv_by_std_in_grpo
use_kl_loss             use_kl_loss actor_rollout_ref.actor.use_kl_loss
loss_agg_mode           loss_agg_mode
kl_estimator            kl_loss_type kl_estimator
gradient_checkpointing  gradient_checkpointing enable_gradient_checkpointing
gradient_accumulation_steps gradient_accumulation_steps
per_device_train_batch_size per_device_train_batch_size
mini_batch_size         ppo_mini_batch_size
train_batch_size        train_batch_size data.train_batch_size rollout_batch_size
max_grad_norm           max_grad_norm grad_clip
warmup_steps            warmup_steps
max_steps               max_steps total_training_steps
seed                    seed
model                   model model_name model_name_or_path model_path actor_rollout_ref.model.path
mask_truncated_completions mask_truncated_completions
use_vllm                use_vllm
lora_r                  lora_r lora_rank
disable_dropout         disable_dropout
importance_sampling_level importance_sampling_level
use_peft                use_peft use_lora
lora_dropout            lora_dropout
dropout                 dropout hidden_dropout resid_pdrop
attention_dropout       attention_dropout attn_pdrop
min_p                   min_p
repetition_penalty      repetition_penalty
presence_penalty        presence_penalty
frequency_penalty       frequency_penalty
entropy_target          entropy_target
use_adaptive_entropy    use_adaptive_entropy
advantage_clip          advantage_clip adv_clip clip_advantages
kl_penalty              kl_penalty algorithm.kl_penalty
use_kl_in_reward        use_kl_in_reward algorithm.use_kl_in_reward
async_level             async_level max_async_level max_staleness max_head_offpolicyness max_steps_off_policy
                    max_off_policy_steps
sync_ref_model          sync_ref_model
ref_model_sync_steps    ref_model_sync_steps
vocab_size              vocab_size
turn_terminator         turn_terminator
reference               reference
teacher                 teacher teacher_model teacher_path teacher_model_path teacher_model_name_or_path
"""
"""Setting, then the names of it; a dotted name is asked before its last part."""


def setting_value(name: str, value: Any) -> str | int | float | bool | None:
    """The value of a setting: numbers and truth values that stand as text are read; None where it says nothing."""
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    figure = number(value)
    if isinstance(value, bool) or figure is None:
        return value if isinstance(value, bool) or (isinstance(value, str) and name in WORDED) else None
    if isinstance(value, str | int) and math.isfinite(figure) and figure.is_integer() and abs(figure) < 1 << 53:
        return int(figure)
    return figure


def known_settings() -> frozenset[str]:
    """Every name under which checks ask for a setting."""
    return frozenset(_TABLE.values())


def _table() -> dict[str, str]:
    found: dict[str, str] = {}
    name = ""
    for line in _SETTINGS.strip().splitlines():
        words = line.split()
        if not line.startswith(" "):
            name, *words = words
            found.setdefault(name, name)
        for word in words:
            found.setdefault(word, name)
    return found


_TABLE = _table()
_OTHERS = ("critic", "reward_model", "ref", "val_kwargs", "eval", "optim_args", "env")
"""Parts of a configuration whose settings are not those of the policy: the steps of an environment are its turns."""


@lru_cache(maxsize=4096)
def declared(key: str) -> str | None:
    """The name under which checks know a setting; None for one that they do not ask for."""
    path = key.strip().lower().replace("/", ".")
    if path in _TABLE:
        return _TABLE[path]
    *heads, last = path.split(".")
    if any(head in _OTHERS for head in heads):
        return None
    return _TABLE.get(last) if len(last) > 1 else None
