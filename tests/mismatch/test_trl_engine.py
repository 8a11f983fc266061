"""A second copy of TRL's model as the rollout engine: stale, in bf16, or at another temperature, reported live."""

from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
import torch

from grpo_doctor import attach
from grpo_doctor.engine.tiny import make_model
from grpo_doctor.mismatch import read_batch
from tests.integrations.tiny_trl import make_trainer
from tests.quick import quick

pytest.importorskip("trl.trainer.grpo_trainer")


class Copied:
    """A rollout function of TRL that samples from its own copy of the model.

    ``every``: updates after which it takes the trainer's weights.
    """

    def __init__(self, every: int = 1, dtype: torch.dtype = torch.float32, temperature: float = 1.0) -> None:
        self.every, self.dtype, self.temperature = every, dtype, temperature
        self.engine: Any = None

    @torch.no_grad()
    def __call__(self, prompts: list[Any], trainer: Any) -> dict[str, list[Any]]:
        model, tokenizer = trainer.accelerator.unwrap_model(trainer.model), trainer.processing_class
        if self.engine is None or trainer.state.global_step % self.every == 0:
            self.engine = quick(make_model(0))
            self.engine.to(self.dtype)
            self.engine.eval()
            self.engine.load_state_dict(model.state_dict())
        out: dict[str, list[Any]] = {"prompt_ids": [], "completion_ids": [], "logprobs": []}
        for prompt, group in groupby(prompts):
            ids = tokenizer.apply_chat_template(prompt, add_generation_prompt=True, tokenize=True, return_dict=False)
            rows, logprobs = torch.tensor([ids for _ in group]), []
            for _ in range(16):
                table = (self.engine(rows).logits[:, -1].float() / self.temperature).log_softmax(-1)
                token = table.exp().multinomial(1)
                logprobs.append(table.gather(1, token))
                rows = torch.cat([rows, token], 1)
            out["prompt_ids"] += [ids] * len(rows)
            out["completion_ids"] += rows[:, len(ids) :].tolist()
            out["logprobs"] += torch.cat(logprobs, 1).tolist()
        return out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "code"),
    [
        (Copied(), ""),
        (Copied(every=1000), "MIS001"),
        (Copied(dtype=torch.bfloat16), "MIS004"),
        (Copied(temperature=1.4), "MIS006"),
    ],
    ids=["healthy", "stale", "bf16", "temperature"],
)
def test_the_kind_is_recognised_during_training(engine: Copied, code: str, tmp_path: Path) -> None:
    trainer = make_trainer(
        tmp_path / "trl", rollout_func=engine, max_steps=4, per_device_train_batch_size=16, max_completion_length=16
    )
    told: list[str] = []
    attached = attach(
        trainer, out=tmp_path / "run", record_batches=1, on_finding=lambda finding, action: told.append(finding.code)
    )
    trainer.train()
    assert {c for c in told if c.startswith("MIS")} == ({code} if code else set())
    assert read_batch(tmp_path / "run" / "batches" / "step-000001.parquet").weight_version == 0
    assert {f.code for f in attached.diagnosis().findings if f.code.startswith("MIS")} == ({code} if code else set())
