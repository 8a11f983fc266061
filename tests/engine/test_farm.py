"""Six healthy runs of the engine with different settings: none has a finding at error."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from grpo_doctor import LiveDoctor
from grpo_doctor.diagnosis.check import Severity
from grpo_doctor.engine.engine import Engine
from grpo_doctor.engine.model import load_model
from grpo_doctor.engine.settings import settings_of
from grpo_doctor.engine.task import Example, Score, WorkflowTask
from grpo_doctor.engine.trainer import Trainer
from tests.quick import quick


class Binary(WorkflowTask):
    """1 for most of the credit, else 0."""

    def score(self, examples: Sequence[Example], texts: Sequence[str], finished: Sequence[bool]) -> list[Score]:
        return [s._replace(reward=float(s.reward >= 0.3)) for s in super().score(examples, texts, finished)]


class Signed(WorkflowTask):
    """From -1 to 1."""

    def score(self, examples: Sequence[Example], texts: Sequence[str], finished: Sequence[bool]) -> list[Score]:
        return [s._replace(reward=2 * s.reward - 1) for s in super().score(examples, texts, finished)]


class Percent(WorkflowTask):
    """From 0 to 100."""

    def score(self, examples: Sequence[Example], texts: Sequence[str], finished: Sequence[bool]) -> list[Score]:
        return [s._replace(reward=100 * s.reward) for s in super().score(examples, texts, finished)]


FARM: list[tuple[type[WorkflowTask], dict[str, Any]]] = [
    (WorkflowTask, {"model": "embedded", "generation_batch_size": 8, "num_generations": 4, "learning_rate": 1e-4}),
    (WorkflowTask, {
        "generation_batch_size": 16, "num_generations": 4, "learning_rate": 2e-4, "max_steps": 40, "scale_rewards": "none",
        "loss_type": "dr_grpo"}),
    (WorkflowTask, {
        "num_generations": 6, "learning_rate": 2e-4, "num_iterations": 2, "epsilon_high": 0.28,
        "gradient_accumulation_steps": 4, "importance_sampling_level": "sequence"}),
    (Binary, {
        "advantage_estimator": "rloo", "generation_batch_size": 32, "num_generations": 16, "lora_r": 8,
        "learning_rate": 2e-3, "skip_zero_advantages": True}),
    (Signed, {
        "advantage_estimator": "reinforce++-baseline", "entropy_coef": 0.005, "beta": 0.1, "kl_estimator": "k2"}),
    (Percent, {
        "scale_rewards": "batch", "loss_type": "grpo", "advantage_ddof": 0, "temperature": 0.9, "max_grad_norm": 0.5,
        "beta": 0.0, "lr_scheduler_type": "linear", "warmup_steps": 5}),
]  # fmt: skip
"""Each run changes several settings that do not depend on each other."""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(len(FARM)))
def test_a_healthy_run_is_not_flagged(seed: int) -> None:
    task, changes = FARM[seed]
    small = {"model": "embedded-small", "generation_batch_size": 24, "max_steps": 22, "max_completion_length": 16}
    small |= {"kl_grad_share_every": 15}
    settings = settings_of({**small, **changes, "seed": seed}, "farm")
    model, tokenizer = load_model(settings)
    doctor = LiveDoctor(json.loads(json.dumps(settings.declared())))
    for record, samples in Trainer(Engine(settings, quick(model), tokenizer, task())).run():
        doctor.push(record, samples)
    assert [f"{f.code}: {f.message}" for f in doctor.findings() if f.level >= Severity.ERROR] == []
