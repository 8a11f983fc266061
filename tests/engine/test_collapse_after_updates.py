"""The run of beita6969/colab-grpo, reproduced: a collapse follows each update and nothing else, whatever setting is
changed."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from grpo_doctor import Diagnosis, LiveDoctor
from grpo_doctor.engine.faults import faulty_engine
from grpo_doctor.engine.faults.generation import P30
from grpo_doctor.engine.model import load_model
from grpo_doctor.engine.settings import settings_of
from grpo_doctor.engine.task import load_task
from grpo_doctor.engine.trainer import Trainer
from tests.quick import quick

STEPS = 12

VARIANTS: list[tuple[list[str], dict[str, Any], float]] = [
    (["train-mode-generation"], {}, 0.95),
    (
        ["train-mode-generation"],
        {
            "num_generations": 4,
            "generation_batch_size": 12,
            "scale_rewards": "none",
            "learning_rate": 4e-5,
            "temperature": 1.0,
        },
        0.9,
    ),
    ([], {**P30, "gradient_checkpointing": True}, 0.0),
]


def trained(faults: list[str], changes: dict[str, Any]) -> tuple[Diagnosis, list[Any]]:
    """Return the final diagnosis of a run with these faults, and the records of the run."""
    engine, of_fault = faulty_engine(faults)
    settings = settings_of({**of_fault, **changes}, "test")
    model, tokenizer = load_model(settings)
    trainer = Trainer(engine(settings, quick(model), tokenizer, load_task(settings.task, settings.reward)))
    doctor = LiveDoctor(settings.declared())
    records = []
    for record, samples in trainer.run():
        doctor.push(record, samples)
        records.append(record)
    return doctor.diagnosis(), records


@pytest.mark.slow
@pytest.mark.parametrize(("faults", "changes", "share"), VARIANTS, ids=str)
def test_collapse_follows_updates(faults: list[str], changes: dict[str, Any], share: float) -> None:
    diagnosis, records = trained(faults, {**changes, "max_steps": STEPS})
    after = {True: [], False: []}  # type: dict[bool, list[float]]
    for before, record in pairwise(records):
        after[bool(before.update_applied)].append(record.fallback_rate >= 0.9)
    assert len(after[True]) >= 5
    assert sum(after[True]) >= share * len(after[True])
    assert not any(after[False])
    if not faults:
        assert not any(after[True])
        assert diagnosis.finding("GEN001") is None
        return
    assert records[0].learning_rate == records[0].weight_delta == 0
    assert records[1].fallback_rate >= 0.9
    found = diagnosis.finding("GEN001")
    assert found is not None
    assert (diagnosis.cause, found.onset_step, found.detected_step) == ("GEN001", 2, 2)
