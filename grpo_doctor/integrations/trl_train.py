"""``run --engine trl``: builds TRL's trainer from the settings of the embedded engine, with live checks.

Start several processes with ``torchrun`` or ``accelerate launch``; TRL detects them.
"""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import msgspec

from ..config import ConfigError
from ..diagnosis.catalogue import Catalogue
from ..engine.model import EMBEDDED, load_model
from ..engine.settings import Settings
from ..engine.task import Task, load_task
from ..engine.tools import ToolTask
from ..extras import install, lacking
from .trl import Attached, attach

Metrics = dict[str, dict[str, list[float]]]
"""The metrics that TRL has collected but not yet logged, by mode and key."""

ONLY_OURS = {
    "advantage_estimator": "grpo",
    "advantage_ddof": 1,
    "skip_zero_advantages": False,
    "kl_estimator": "k3",
}
"""Settings without an equivalent in TRL, with the value at which TRL and the embedded engine behave the same."""


def train(settings: Settings, out: Path, on: str, catalogue: Catalogue) -> Attached:
    """Train to the end, or until a finding stops the run. Raises `ConfigError` for settings that TRL does not
    support."""
    trainer = build(settings, out)
    attached = attach(trainer, out=out, on=on, record_tokens=settings.record_tokens or 64, catalogue=catalogue)
    trainer.train()
    return attached


def build(settings: Settings, out: Path) -> Any:
    """Build a ``GRPOTrainer`` for these settings."""
    try:
        from datasets import Dataset
        from trl.trainer.grpo_config import GRPOConfig
        from trl.trainer.grpo_trainer import GRPOTrainer
    except ImportError as error:
        raise ConfigError(f"--engine trl: {lacking(error)}; {install('trl')}") from None
    for name, value in ONLY_OURS.items():
        if getattr(settings, name) != value:
            raise ConfigError(f"--engine trl: {name} must be {value!r}, because TRL supports no other value")
    model, tokenizer = load_model(settings)
    task = load_task(settings.task, settings.reward)
    if isinstance(task, ToolTask):
        raise ConfigError(f"--engine trl: --task {settings.task} works only with --engine own")
    rows = [{"prompt": example.dialogue, "example": i} for i, example in enumerate(task.examples)]
    if settings.beta and not hasattr(model, "peft_config"):
        _give_a_name(model, tokenizer, out / "reference")
    metrics: Metrics = {}
    trainer = GRPOTrainer(
        model=model.train(),
        reward_funcs=_reward(task, set(_ends(model, tokenizer)), metrics),
        args=GRPOConfig(**_config(settings, out, {f.name for f in dataclasses.fields(GRPOConfig)})),
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer,
    )
    metrics["train"] = trainer._metrics["train"]
    return trainer


def _config(settings: Settings, out: Path, known: set[str]) -> dict[str, Any]:
    """Convert the settings to TRL's. Most names are the same; a batch is split over processes and accumulation
    steps."""
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    share = settings.generation_batch_size // settings.gradient_accumulation_steps // processes
    if share * settings.gradient_accumulation_steps * processes != settings.generation_batch_size or not share:
        raise ConfigError(
            f"generation_batch_size {settings.generation_batch_size} cannot be divided over "
            f"{settings.gradient_accumulation_steps} accumulation steps and {processes} processes"
        )
    values = {k: v for k, v in msgspec.structs.asdict(settings).items() if k in known and v is not None}
    del values["generation_batch_size"]  # TRL computes it from the three settings that replace it
    return {
        **values,
        "output_dir": str(out / "trl"),
        "per_device_train_batch_size": share,
        "generation_kwargs": {"min_new_tokens": settings.min_new_tokens} if settings.min_new_tokens else None,
        "use_cpu": settings.device == "cpu" or settings.model in EMBEDDED,
        "logging_steps": 1,
        "report_to": "none",
        "disable_tqdm": True,
    }


def _give_a_name(model: Any, tokenizer: Any, folder: Path) -> None:
    """Give the model a name, because TRL loads the reference policy by name, and a model that is built from settings
    has none."""
    if int(os.environ.get("RANK", "0")) == 0:
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    model.config._name_or_path = str(folder)


def _ends(model: Any, tokenizer: Any) -> list[int]:
    from ..engine.engine import end_ids

    return [int(i) for i in end_ids(model, tokenizer)]


def _reward(task: Task, ends: set[int], metrics: Metrics) -> Any:
    """Wrap the task's score as one reward function that also records validity and success.

    Validity and success are recorded with ``log_metric``, or in TRL's lists in versions without ``log_metric``.
    """

    def log(name: str, value: float) -> None:
        metrics["train"].setdefault(name, []).append(value)

    def task_reward(completions: list[Any], completion_ids: list[list[int]], example: list[int], **named: Any) -> Any:
        texts = [c if isinstance(c, str) else c[-1]["content"] for c in completions]
        finished = [bool(ids) and int(ids[-1]) in ends for ids in completion_ids]
        scores = task.score([task.examples[i] for i in example], texts, finished)
        log_metric = named.get("log_metric", log)
        for name, known in (("valid_rate", [s.valid for s in scores]), ("success_rate", [s.success for s in scores])):
            if None not in known:
                log_metric(name, sum(map(bool, known)) / len(known))
        return [score.reward for score in scores]

    return task_reward
