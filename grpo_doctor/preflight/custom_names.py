"""What the keys of an author's own trainer most likely mean, told by the names that such trainers give them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..readers.settings import declared
from .launch import PER_PROMPT, Entry, Unresolved

RL_SECTION = re.compile(r"(?i)(?:grpo|ppo|rloo|gspo|dapo|rlvr|rlhf|rl)(?:_?(?:config|training|trainer|args|params))?")
"""Sections of a document whose settings count before those of its other stages."""
REPEATS = ("repeat_times", "num_repeats")
"""Keys by which a group is sampled several times over."""
USUAL = {
    "num_completions": "group_size",
    "num_chains": "group_size",
    "n_generations": "group_size",
    "group_num": "group_size",
    "num_unique_prompts_rollout": "rollout_prompts",
    "num_questions_per_batch": "rollout_prompts",
    "num_ppo_epochs": "num_iterations",
    "max_prompt_token_length": "max_prompt_tokens",
    "num_return_sequences": "group_size",
    "num_pre_q": "group_size",
    "rollout_n": "group_size",
    "rollout_group_size": "group_size",
    "grpo_group_size": "group_size",
    "num_gen": "group_size",
    "num_responses": "group_size",
    "gen_count": "group_size",
    "generation_count": "group_size",
    "rollout_count": "group_size",
    "completion_count": "group_size",
    "group": "group_size",
    "n_rollouts": "group_size",
    "num_rollouts": "group_size",
    "optimizer_lr": "learning_rate",
    "actor_lr": "learning_rate",
    "policy_lr": "learning_rate",
    "policy_learning_rate": "learning_rate",
    "actor_learning_rate": "learning_rate",
    "lr_actor": "learning_rate",
    "lr_policy": "learning_rate",
    "lm_lr": "learning_rate",
    "init_kl_coef": "kl_reward_coef",
    "clip_epsilon": "epsilon",
    "epsilon_clip": "epsilon",
    "ppo_clip": "epsilon",
    "clip_eps": "epsilon",
    "clip_coef": "epsilon",
    "clip_ratio": "epsilon",
    "clip_param": "epsilon",
    "eps_clip": "epsilon",
    "kl_coefficient": "kl_coef",
    "loss_variant": "loss_type",
    "kl_weight": "kl_coef",
    "kl_lambda": "kl_coef",
    "kl_weight_beta": "kl_coef",
    "kl_penalty_weight": "kl_coef",
    "beta_kl": "kl_coef",
    "kl_penalty_beta": "kl_coef",
    "max_completion_tokens": "max_new_tokens",
    "max_gen_len": "max_new_tokens",
    "max_gen_length": "max_new_tokens",
    "max_gen_tokens": "max_new_tokens",
    "gen_length": "max_new_tokens",
    "max_response_tokens": "max_new_tokens",
    "max_response_len": "max_new_tokens",
    "sampling_max_tokens": "max_new_tokens",
    "gen_temperature": "temperature",
    "rollout_temperature": "temperature",
    "max_response_tokens_length": "max_new_tokens",
    "max_prompt_tokens_length": "max_prompt_tokens",
    "neg_clip_ratio": "epsilon",
    "pos_clip_ratio": "epsilon_high",
    "max_prompt_length": "max_prompt_tokens",
    "max_prompt_tokens": "max_prompt_tokens",
    "prompts_per_step": "rollout_prompts",
    "prompts_per_batch": "rollout_prompts",
    "prompts_per_rollout": "rollout_prompts",
    "groups_per_step": "rollout_prompts",
    "groups_per_batch": "rollout_prompts",
    "n_prompts_per_rollout_batch": "rollout_prompts",
    "updates_per_rollout_group": "num_iterations",
    "grpo_epochs": "num_iterations",
    "inner_epochs": "num_iterations",
    "advantage_type": "adv_estimator",
    "base_model": "model",
    "optim": "optimizer",
    "optimizer": "optimizer",
    "optimizer_name": "optimizer",
    "optimizer_type": "optimizer",
    "lora_target_modules": "adapter_targets",
    "algorithm": "algorithm",
    "algo": "algorithm",
    "rl_algorithm": "algorithm",
    "trainer_type": "algorithm",
}
_OF_RL = re.compile(r"^(?:grpo|rl|ppo|rloo)_")
_OF_POLICY = re.compile(r"(?i)^(?:actor|policy|lm)_|_(?:actor|policy)$")
_PASSES = re.compile(r"(?:ppo|grpo|policy|inner|update)_(?:num_|n_)?(?:epochs?|iters?|iterations)(?:_per_\w{1,20})?")
"""How often a hand-written trainer goes through one rollout."""
_DRAWN = re.compile(r"(?:\w+\.)*(?:sampling|rollout|generation)\.(?:n|k|num_samples|n_samples)")
"""How many responses one call of the engine draws."""
_KL = re.compile(r"(?:\w+\.)*(?:kl|kl_loss|kl_penalty)\.(?:coef|coeff|coefficient|beta|weight)")
"""The coefficient of a KL that has a section of its own."""
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
OF_A_CRITIC = frozenset("vf_coef vf_coeff value_coef value_loss_coef gae_lambda lam".split())
"""Keys of a trainer with a critic, which needs no group; its ``num_rollouts`` are no responses to one prompt."""
PERHAPS = (
    *("num_samples", "n_samples", "num_outputs", "n_outputs", "num_trajectories", "n_trajectories"),
    *("num_candidates", "n_candidates"),
)
"""Keys that count the responses to one prompt where nothing else does, and any other samples elsewhere."""
RATES = ("init_lr", "lr_init", "initial_lr", "base_lr", "max_lr", "lr_max", "peak_lr", "lr_peak", "max_learning_rate")
"""Keys that are the learning rate where nothing else is; a schedule moves away from it."""
_MOST = 32
"""Responses to one prompt of which such a key speaks at most."""
_NUMBERS = ("group_size", "learning_rate", "kl_coef", "epsilon", "num_iterations")
"""Settings that a word says nothing of."""
_ROLLOUTS = ("n_rollouts", "num_rollouts")
_PROMPTS = frozenset(key for key, name in USUAL.items() if name == "rollout_prompts")
"""Keys that count prompts, beside which a number of rollouts is that of one prompt."""
PENALTY = 0.5
"""Below this a ``repetition_penalty`` of a hand-written trainer is taken off the reward."""
HIGHEST = 1.0
"""From here on no number is the learning rate of a language model."""
NUMERICAL = 1e-3
"""Below this an ``epsilon`` of a hand-written trainer keeps a division from 0; it is no clip bound."""


def underscored(name: str) -> str:
    """A name whose words begin with capitals, with an underscore before each: ``maxSteps`` is ``max_Steps``."""
    return _HUMP.sub("_", name)


def rank(key: str, entry: Entry) -> tuple[bool, ...]:
    """Which of two keys says a setting: the file's own, one whose name can mean nothing else, that of the policy."""
    last = key.rsplit(".", 1)[-1]
    told = last == "num_generations" or PER_PROMPT.fullmatch(last) is not None  # names that mean nothing else
    of_rl = _OF_RL.match(key) is not None or _OF_POLICY.search(last) is not None
    elsewhere = "." in entry.key and not any(map(RL_SECTION.fullmatch, entry.key.split(".")[:-1]))
    guessed = underscored(last).lower() in USUAL
    return entry.line == 0, not told, not of_rl, elsewhere, guessed, key.endswith("num_return_sequences")


def few(value: object) -> bool:
    return isinstance(value, int) and 1 < value <= _MOST


def usual(key: str, index: Mapping[str, Entry]) -> str | None:
    """The setting that a key of a hand-written trainer most likely is; None where it is none."""
    if _KL.fullmatch(key):
        return "kl_coef"
    if "." in key:
        return "group_size" if _DRAWN.fullmatch(key) and few(index[key].value) else None
    whole = underscored(key).lower()
    last = _OF_RL.sub("", whole)
    if last in _ROLLOUTS and OF_A_CRITIC & index.keys() and not _PROMPTS & index.keys():
        return None
    name = "group_size" if key == "G" or PER_PROMPT.fullmatch(last) else None
    name = name or USUAL.get(whole) or declared(whole) or ("num_iterations" if _PASSES.fullmatch(whole) else None)
    name = name or USUAL.get(last) or declared(last)
    value = index[key].value
    if name in _NUMBERS and isinstance(value, str) and not isinstance(value, Unresolved):
        return None  # the name of a group of runs, or of a column
    if name == "learning_rate" and isinstance(value, int | float) and value >= HIGHEST:
        return None
    of_one_call = 2 if last == "num_return_sequences" else 1  # a prompt may be repeated before the call
    # 0: a group that is not set; a small penalty is one of the reward, that of sampling is about 1
    least = {"epsilon": NUMERICAL, "group_size": of_one_call, "repetition_penalty": PENALTY}.get(name or "", value)
    return None if isinstance(value, int | float) and value < least else name
