"""TRL's GRPOTrainer on a tiny model: passes as it is, and fails the right probe once it is made sick."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from grpo_doctor.diagnosis import Diagnosis
from grpo_doctor.probes import run_probes, trl_adapter
from tests.probes.reference import PROMPTS, make_model, make_tokenizer

trl = pytest.importorskip("trl")
datasets = pytest.importorskip("datasets")


def make_trainer(folder: Path, **changes: Any) -> Any:
    torch.set_num_threads(1)
    tokenizer = make_tokenizer()
    values = {
        "output_dir": str(folder), "num_generations": 2, "per_device_train_batch_size": 4, "beta": 0.02,
        "max_completion_length": 16, "report_to": "none", "use_cpu": True, "bf16": False, "learning_rate": 1e-3,
        "gradient_checkpointing": False, "logging_steps": 1,
    }  # fmt: skip
    data = datasets.Dataset.from_dict({"prompt": [PROMPTS[n % 3] for n in range(8)]})
    make_model(tokenizer).save_pretrained(folder / "model")
    values["model_init_kwargs"] = {"dtype": "float32"}
    return trl.GRPOTrainer(
        str(folder / "model"), reward_funcs=lambda completions, **_: [0.0] * len(completions),
        args=trl.GRPOConfig(**{**values, **changes}), train_dataset=data, processing_class=tokenizer,
    )  # fmt: skip


def probed(trainer: Any) -> Diagnosis:
    return run_probes(trl_adapter(trainer, prompts=PROMPTS))


def test_trl_passes(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path, entropy_coef=0.01)
    diagnosis = probed(trainer)
    assert [f"{f.code}: {f.message}" for f in diagnosis.findings] == []
    assert (diagnosis.verdict, diagnosis.notes) == ("healthy", [])
    assert diagnosis.coverage.ran >= 15


def test_a_negative_entropy_coefficient_is_a_flipped_sign(tmp_path: Path) -> None:
    assert probed(make_trainer(tmp_path, entropy_coef=-1.0)).cause == "ENT006"


def test_generation_in_train_mode_with_checkpointing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def as_it_is(model: Any, *args: Any, **kwargs: Any) -> Iterator[Any]:
        model.train()
        yield model

    monkeypatch.setattr("trl.trainer.grpo_trainer.unwrap_model_for_generation", as_it_is)
    trainer = make_trainer(tmp_path, gradient_checkpointing=True)
    trainer.model.gradient_checkpointing_enable()
    assert probed(trainer).cause == "GEN001"
