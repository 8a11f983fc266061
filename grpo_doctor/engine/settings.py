"""Settings of a training run. A setting with the same meaning as in TRL's ``GRPOConfig`` has the same name."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from ..config import ConfigError


class Settings(msgspec.Struct, kw_only=True, frozen=True):
    """Settings of one run. Batch sizes count responses, not prompts, as in TRL."""

    # what is trained, and on what
    model: str = "embedded"
    """``embedded``, ``embedded-small``, ``smollm2``, a folder or a hub id."""
    task: str = "embedded"
    """``embedded``, ``tools``, ``module:function`` that returns a `Task`, or a JSONL file of prompts."""
    reward: str | None = None
    """``module:function`` in TRL's form, for a JSONL file of prompts."""
    seed: int = 0
    max_steps: int = 60
    device: str = "auto"
    bf16: bool = False
    gradient_checkpointing: bool = False
    lora_r: int | None = None
    """Rank of the LoRA adapter, or 0 to train every weight. None means 0 for the embedded models and 16 for other
    models."""
    lora_alpha: int = 32

    # rollout
    generation_batch_size: int = 64
    num_generations: int = 8
    max_completion_length: int = 32
    min_new_tokens: int = 0
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    repetition_penalty: float = 1.0

    # advantage
    advantage_estimator: Literal["grpo", "rloo", "reinforce++-baseline", "rank"] = "grpo"
    scale_rewards: Literal["group", "batch", "none"] = "group"
    advantage_ddof: Literal[0, 1] = 1
    skip_zero_advantages: bool = False
    """Whether to skip the update if every group of the step has equal rewards."""

    # objective
    loss_type: Literal["dapo", "grpo", "dr_grpo"] = "dapo"
    importance_sampling_level: Literal["token", "sequence"] = "token"
    epsilon: float = 0.2
    epsilon_high: float | None = None
    beta: float = 0.02
    kl_estimator: Literal["k1", "k2", "k3"] = "k3"
    entropy_coef: float = 0.0
    num_iterations: int = 1
    gradient_accumulation_steps: int = 1

    # optimizer
    learning_rate: float = 4e-4
    lr_scheduler_type: Literal["constant", "linear"] = "constant"
    warmup_steps: int = 0
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0

    # records and checkpoints
    record_every: int = 1
    """Steps between records of quantities that need an extra pass over logits or weights: sharpness, entropy,
    `kl_grad_share` and `policy_movement_kl`. `policy_movement_kl` is in the first ten of these records, and then in
    every third of them. All other fields are in every record."""
    record_tokens: int = 0
    """Number of response tokens per step for logit statistics; 0 for all."""
    kl_grad_share_every: int = 10
    """The KL term's share of the gradient, which needs an extra backward pass, is measured in every n-th record that
    `record_every` selects. After three measurements, the interval is five times as long. 0 means never."""
    save_steps: int = 20
    save_total_limit: int = 3

    @property
    def prompts(self) -> int:
        """Number of prompts per step, each with ``num_generations`` responses."""
        return self.generation_batch_size // self.num_generations

    def declared(self) -> dict[str, Any]:
        """Return the settings under their own names and under the names of the corresponding record fields."""
        divisors = {"rloo": "none", "reinforce++-baseline": "batch", "rank": "rank"}
        return {
            **msgspec.structs.asdict(self),
            "group_size": self.num_generations,
            "groups": self.prompts,
            "max_new_tokens": self.max_completion_length,
            "kl_coef": self.beta,
            "use_kl_loss": True,
            "normaliser": divisors.get(self.advantage_estimator, self.scale_rewards),
        }


OF_MODEL: dict[str, dict[str, Any]] = {"smollm2": {"generation_batch_size": 16}}
"""Defaults per model. With 135 million weights, 64 responses would take over three minutes of CPU time per step."""


def settings_of(values: Mapping[str, Any], origin: str, under: Settings | None = None) -> Settings:
    """Merge ``values`` into ``under`` (or the defaults). Raises a `ConfigError` that names an unknown or invalid
    key."""
    known = Settings.__struct_fields__
    for key in values:
        if key not in known:
            near = difflib.get_close_matches(key, known, 1)
            raise ConfigError(f"{origin}: unknown setting {key!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
    base = msgspec.structs.asdict(under) if under is not None else OF_MODEL.get(str(values.get("model")), {})
    try:
        settings = msgspec.convert({**base, **values}, Settings)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{origin}: {error}") from None
    _validate(settings, origin)
    return settings


def _validate(s: Settings, origin: str) -> None:
    positive = "max_steps generation_batch_size num_generations max_completion_length num_iterations record_every"
    for name in (*positive.split(), "gradient_accumulation_steps", "save_steps", "save_total_limit", "temperature"):
        if not getattr(s, name) > 0:
            raise ConfigError(f"{origin}: {name} must be above 0, not {getattr(s, name)}")
    if s.generation_batch_size % s.num_generations:
        raise ConfigError(
            f"{origin}: generation_batch_size {s.generation_batch_size} is not divisible by "
            f"num_generations {s.num_generations}"
        )
    if s.generation_batch_size % s.gradient_accumulation_steps:
        raise ConfigError(
            f"{origin}: generation_batch_size {s.generation_batch_size} is not divisible by "
            f"gradient_accumulation_steps {s.gradient_accumulation_steps}"
        )
    if s.num_generations < 2:
        raise ConfigError(f"{origin}: num_generations must be at least 2: with one response the advantage is always 0")
