"""One fault, two trainers: the engine and TRL get the same findings on the same settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl.trainer.grpo_trainer", reason="the extra trl is not installed")

from grpo_doctor import Diagnosis, LiveDoctor
from grpo_doctor.diagnosis.catalogue import load
from grpo_doctor.engine.engine import Engine
from grpo_doctor.engine.model import load_model
from grpo_doctor.engine.settings import Settings, settings_of
from grpo_doctor.engine.task import load_task
from grpo_doctor.engine.trainer import Trainer
from grpo_doctor.integrations.trl_train import train
from tests.quick import quick

pytestmark = pytest.mark.slow


def by_own_engine(settings: Settings) -> Diagnosis:
    model, tokenizer = load_model(settings)
    trainer = Trainer(Engine(settings, quick(model), tokenizer, load_task(settings.task, settings.reward)))
    doctor = LiveDoctor(json.loads(json.dumps(settings.declared())))
    for record, samples in trainer.run():
        doctor.push(record, samples)
    return doctor.diagnosis()


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        pytest.param({"num_generations": 2, "max_completion_length": 16}, "ADV001", id="groups of two"),
        pytest.param({"max_completion_length": 2}, "LEN003", id="every response cut"),
    ],
)
def test_both_trainers_get_the_same_finding(tmp_path: Path, changes: dict[str, Any], code: str) -> None:
    small = {"max_steps": 8, "generation_batch_size": 8, "num_generations": 4, "max_completion_length": 4}
    settings = settings_of({**small, **changes}, "settings")
    own = by_own_engine(settings).finding(code)
    other = train(settings, tmp_path / "run", "warning=warn", load()).diagnosis().finding(code)
    assert own is not None
    assert other is not None
    assert own.severity == other.severity  # the role depends on what else each of them records
