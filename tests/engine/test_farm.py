"""Twenty healthy runs of the engine, no two alike, and no finding at error in any of them."""

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
    (WorkflowTask, {"model": "embedded"}),
    (WorkflowTask, {"num_generations": 4}),
    (WorkflowTask, {"generation_batch_size": 32, "num_generations": 16, "learning_rate": 2e-4}),
    (WorkflowTask, {"generation_batch_size": 16, "num_generations": 4, "learning_rate": 2e-4, "max_steps": 30}),
    (WorkflowTask, {"generation_batch_size": 48, "num_generations": 6}),
    (WorkflowTask, {"generation_batch_size": 8, "learning_rate": 1e-4, "max_steps": 40}),
    (WorkflowTask, {"advantage_estimator": "rloo", "learning_rate": 2e-4}),
    (WorkflowTask, {"advantage_estimator": "reinforce++-baseline"}),
    (WorkflowTask, {"scale_rewards": "none", "loss_type": "dr_grpo"}),
    (WorkflowTask, {"scale_rewards": "batch", "loss_type": "grpo", "advantage_ddof": 0}),
    (WorkflowTask, {"beta": 0.0, "lr_scheduler_type": "linear", "warmup_steps": 5}),
    (WorkflowTask, {"beta": 0.1, "kl_estimator": "k2"}),
    (WorkflowTask, {"num_iterations": 2, "learning_rate": 2e-4, "epsilon_high": 0.28}),
    (WorkflowTask, {"gradient_accumulation_steps": 4, "importance_sampling_level": "sequence"}),
    (WorkflowTask, {"lora_r": 8, "learning_rate": 2e-3}),
    (Binary, {}),
    (Binary, {"num_generations": 4, "learning_rate": 2e-4, "skip_zero_advantages": True}),
    (Signed, {"entropy_coef": 0.005}),
    (Percent, {"learning_rate": 3e-4, "max_grad_norm": 0.5}),
    (Percent, {"scale_rewards": "batch", "temperature": 0.9, "generation_batch_size": 64, "max_steps": 20}),
]


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
