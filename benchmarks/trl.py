"""Cost of `attach` in TRL: ``python -m benchmarks.trl [steps]``.

CPU time of one thread on a random model of about 8 million weights (hidden 256, four layers, vocabulary 8,192), 4
prompts of 8 responses of 32 tokens. The functions of grpo-doctor are timed where the trainer calls them and compared
with the rest of the same steps, because two trainings, one with and one without grpo-doctor, differ by more than its
cost.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

WARM = 2


def make_trainer(out: Path, steps: int, cuda: bool = False) -> Any:
    """Return TRL's trainer with the model of 8 million weights."""
    from datasets import Dataset
    from transformers import LlamaConfig, LlamaForCausalLM
    from trl.trainer.grpo_config import GRPOConfig
    from trl.trainer.grpo_trainer import GRPOTrainer

    from grpo_doctor.engine.tiny import make_tokenizer

    torch.manual_seed(0)
    tokenizer = make_tokenizer()
    config = LlamaConfig(
        vocab_size=8192, hidden_size=256, intermediate_size=704, num_hidden_layers=4, num_attention_heads=4,
        max_position_embeddings=256, pad_token_id=tokenizer.pad_token_id, eos_token_id=tokenizer.eos_token_id,
    )  # fmt: skip
    words = sorted(w for w in tokenizer.get_vocab() if w.isalpha())[:8]
    rows = [{"prompt": [{"role": "user", "content": word}]} for word in words] * 8
    arguments = GRPOConfig(
        output_dir=str(out), max_steps=steps, logging_steps=1, per_device_train_batch_size=32, num_generations=8,
        max_completion_length=32, learning_rate=1e-5, report_to="none", save_strategy="no", use_cpu=not cuda,
        bf16=False, disable_tqdm=True, gradient_checkpointing=False, seed=7,
    )  # fmt: skip
    data = Dataset.from_list(rows)

    def reward(completions: list[Any], **_: Any) -> list[float]:
        return [len(set(c[0]["content"])) / 100 for c in completions]

    model: Any = LlamaForCausalLM(config)
    return GRPOTrainer(model=model, reward_funcs=reward, args=arguments, train_dataset=data, processing_class=tokenizer)


OWN = {
    "Seams": ("after_loss", "saw_rewards"),
    "Local": ("counted",),
    "Attached": ("before_update", "end_step"),
}
"""Functions of grpo-doctor that take time, by class; none of them calls another one here."""
TEXTS = ("rollouts_of", "filled")
"""Functions called by these that read the texts of the responses."""


class Clock:
    """Measures the time of the steps, and of grpo-doctor's functions within them."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self.own, self.steps, self.began = 0.0, [], 0.0
        self.parts: dict[str, float] = {}

    def counted(self, name: str, function: Callable[..., Any], inner: bool = False) -> Callable[..., Any]:
        """Return the function with a timer; an ``inner`` function is called by another of them."""

        def call(*arguments: Any, **named: Any) -> Any:
            began = self.now()
            result = function(*arguments, **named)
            taken = self.now() - began
            self.own += 0.0 if inner else taken
            self.parts[name] = self.parts.get(name, 0.0) + taken * (len(self.steps) >= WARM)
            return result

        return call


def measured(steps: int, cuda: bool = False, now: Callable[[], float] = time.process_time) -> tuple[Clock, int]:
    """Return the seconds of these steps in total and in grpo-doctor, and the number of weights of the model."""
    from transformers import TrainerCallback

    from grpo_doctor.integrations import trl_record
    from grpo_doctor.integrations.trl import Attached, attach
    from grpo_doctor.integrations.trl_hooks import Seams
    from grpo_doctor.integrations.trl_record import Local
    from grpo_doctor.rollouts import Steps as Rollouts

    clock = Clock(now)

    class Steps(TrainerCallback):
        """Runs before grpo-doctor's callback, so that a step is counted one call later and includes its end."""

        def on_step_begin(self, args: Any, state: Any, control: Any, **named: Any) -> None:
            if clock.began:
                clock.steps.append((now() - clock.began, clock.own))
            clock.began, clock.own = now(), 0.0

    torch.set_num_threads(1)
    for owner in (Seams, Local, Attached):
        for name in OWN[owner.__name__]:
            setattr(owner, name, clock.counted(name, getattr(owner, name)))
    for place, name in zip((trl_record, Rollouts), TEXTS, strict=True):
        setattr(place, name, clock.counted(name, getattr(place, name), inner=True))
    with tempfile.TemporaryDirectory() as folder:
        trainer = make_trainer(Path(folder) / "trl", steps + WARM + 1, cuda)
        trainer.add_callback(Steps())
        attach(trainer, out=Path(folder) / "run", on_finding=lambda finding, action: None)
        trainer.train()
    del clock.steps[:WARM]
    return clock, sum(p.numel() for p in trainer.model.parameters())


def main(steps: int) -> None:
    clock, weights = measured(steps)
    whole, own = (statistics.median(column) * 1e3 for column in zip(*clock.steps, strict=True))
    shares = sorted(own / (whole - own) for whole, own in clock.steps)
    print(f"{weights / 1e6:.1f} million weights, {len(shares)} steps, CPU time, medians")
    print(
        f"a step {whole:.0f} ms, of it the doctor {own:.1f} ms: {statistics.median(shares):.2%} over the training alone"
    )
    print(f"single steps {shares[0]:.2%} to {shares[-1]:.2%}")
    print(", ".join(f"{name} {taken / len(shares) * 1e3:.2f} ms" for name, taken in clock.parts.items()))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
