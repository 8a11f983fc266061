"""TRL's GRPOTrainer on a tiny model: it passes without faults, and fails the expected probe with each fault."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaForCausalLM

from grpo_doctor.diagnosis.catalogue import Catalogue, load
from grpo_doctor.diagnosis.verdict import Diagnosis
from grpo_doctor.probes import run_probes, trl_adapter
from tests.probes.open_notes import open_notes
from tests.probes.reference import PROMPTS, make_model, make_tokenizer
from tests.quick import QuickLlama

trl = pytest.importorskip("trl")
datasets = pytest.importorskip("datasets")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """TRL loads the library's models, including the reference."""
    monkeypatch.setattr(LlamaForCausalLM, "forward", QuickLlama.forward)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny model."""
    folder = tmp_path_factory.mktemp("model")
    make_model(make_tokenizer()).save_pretrained(folder)
    return folder


def make_trainer(saved: Path, folder: Path, *, lora: bool = False, pad_is_eos: bool = False, **changes: Any) -> Any:
    torch.set_num_threads(1)
    values = {
        "output_dir": str(folder), "num_generations": 2, "per_device_train_batch_size": 4, "max_completion_length": 16,
        "report_to": "none", "use_cpu": True, "model_init_kwargs": {"dtype": "float32"},
    }  # fmt: skip
    more: dict[str, Any] = {}
    if lora:
        peft = pytest.importorskip("peft")
        more["peft_config"] = peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    data = datasets.Dataset.from_dict({"prompt": [PROMPTS[n % 3] for n in range(8)]})
    return trl.GRPOTrainer(
        str(saved), reward_funcs=lambda completions, **_: [0.0] * len(completions),
        args=trl.GRPOConfig(**{**values, **changes}), train_dataset=data, processing_class=make_tokenizer(pad_is_eos),
        **more,
    )  # fmt: skip


def probed(trainer: Any, catalogue: Catalogue | None = None) -> Diagnosis:
    return run_probes(trl_adapter(trainer, prompts=PROMPTS), catalogue=catalogue)


def of_updates() -> Catalogue:
    """The probes that call the loss or update the model: those of sampling, batch and advantages do not depend on the
    type of the loss."""
    parts = {"loss", "objective", "backward", "step"}
    return load().select([c for c, check in load().checks.items() if parts & {*check.probe_arguments}])


WHOLE: dict[str, dict[str, Any]] = {
    "every term, accumulation": {
        "beta": 0.04, "entropy_coef": 0.01, "bf16": False, "gradient_checkpointing": False, "scale_rewards": "batch",
        "gradient_accumulation_steps": 4, "steps_per_generation": 4, "warmup_steps": 10,
    },
    "LoRA, KL, reused samples": {
        "lora": True, "beta": 0.1, "num_iterations": 2, "loss_type": "bnpo", "scale_rewards": "none",
    },
    "pad is EOS": {"pad_is_eos": True, "temperature": 0.7, "delta": 2.0, "loss_type": "dr_grpo"},
}  # fmt: skip
"""Right configurations that all probes run on."""
RIGHT: dict[str, dict[str, Any]] = {
    **WHOLE,
    "GSPO": {
        "importance_sampling_level": "sequence", "loss_type": "grpo", "num_iterations": 2, "epsilon": 3e-4,
        "epsilon_high": 4e-4,
    },
    "CISPO": {"loss_type": "cispo", "epsilon_high": 5.0, "num_iterations": 2},
    "SAPO": {"loss_type": "sapo", "beta": 0.04, "mask_truncated_completions": True},
    "LUSPO": {"loss_type": "luspo", "importance_sampling_level": "sequence"},
    "VESPO": {"loss_type": "vespo", "num_iterations": 2},
    "DAPO": {"loss_type": "dapo", "epsilon_high": 0.28, "mask_truncated_completions": True, "num_iterations": 2},
}  # fmt: skip
"""Right configurations, each option of GRPOConfig that changes loss, batch or precision in one of them at least."""


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_configuration_is_not_flagged(saved: Path, tmp_path: Path, name: str) -> None:
    diagnosis = probed(make_trainer(saved, tmp_path, **RIGHT[name]), None if name in WHOLE else of_updates())
    assert [f"{f.code}: {f.message}" for f in diagnosis.findings if f.severity != "info"] == []
    assert (diagnosis.verdict, open_notes(diagnosis)) == ("healthy", [])
    assert diagnosis.coverage.ran >= (15 if name in WHOLE else 9)


def test_every_loss_of_this_trl_is_among_them() -> None:
    source = inspect.getsource(trl.GRPOTrainer._compute_loss)
    known = set(re.findall(r"""self\.loss_type (?:==|in) (.+?):""", source))
    losses = {word for line in known for word in re.findall(r'"(\w+)"', line)}
    tried = {case["loss_type"] for case in RIGHT.values() if "loss_type" in case}
    assert losses
    assert losses <= tried


def test_generation_in_train_mode_with_checkpointing(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def as_it_is(model: Any, *args: Any, **kwargs: Any) -> Iterator[Any]:
        model.train()
        yield model

    monkeypatch.setattr("trl.trainer.grpo_trainer.unwrap_model_for_generation", as_it_is)
    trainer = make_trainer(saved, tmp_path, gradient_checkpointing=True)
    trainer.model.gradient_checkpointing_enable()
    assert probed(trainer, load().select(["GEN"])).cause == "GEN001"


def test_a_subclass_with_its_own_loss_is_judged_by_that(saved: Path, tmp_path: Path) -> None:
    def one_late(self: Any, model: Any, inputs: Any) -> Any:
        late = torch.nn.functional.pad(inputs["completion_mask"], (1, 0))[:, :-1]
        mask = {"completion_mask": inputs["completion_mask"] * late}
        return super(type(self), self)._compute_loss(model, inputs | mask)

    trainer = make_trainer(saved, tmp_path, bf16=False)
    right = trl_adapter(trainer, prompts=PROMPTS)
    trainer.__class__ = type("Own", (trl.GRPOTrainer,), {"_compute_loss": one_late, "__module__": __name__})
    adapter = trl_adapter(trainer, prompts=PROMPTS)
    assert set(right.seams) - set(adapter.seams) >= {"mask", "logprobs", "objective"}
    assert [f.code for f in run_probes(adapter, catalogue=load().select(["PAD002"])).findings] == ["PAD002"]
