"""A GRPOTrainer small enough for tests: the engine's embedded model shape, random weights, a verifiable reward."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any


def reward(prompts: list[Any], completions: list[Any], answer: list[str], **_: Any) -> list[float]:
    """Share of the words that are the asked one."""
    texts = [c[0]["content"].split() for c in completions]
    return [sum(w == a for w in t) / max(len(t), 1) for t, a in zip(texts, answer, strict=True)]


def constant(completions: list[Any], **_: Any) -> list[float]:
    return [0.0] * len(completions)


def make_trainer(out: Path, *, lora: bool = False, rewards: Any = reward, seed: int = 0, **changes: Any) -> Any:
    """A trainer on the engine's tiny model and tokenizer; ``changes`` go to GRPOConfig."""
    import torch
    from datasets import Dataset
    from trl.trainer.grpo_config import GRPOConfig
    from trl.trainer.grpo_trainer import GRPOTrainer

    from grpo_doctor.engine.tiny import make_model, make_tokenizer

    torch.set_num_threads(1)
    tokenizer = make_tokenizer()
    model: Any = make_model(seed)
    if lora:
        from peft import LoraConfig, get_peft_model

        adapter = LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
        model = get_peft_model(model, adapter)
    rng = random.Random(0)
    words = sorted(w for w in tokenizer.get_vocab() if w.isalpha())[:8]
    rows = [{"prompt": [{"role": "user", "content": " ".join(rng.choices(words, k=rng.randint(1, 4)))}],
             "answer": rng.choice(words)} for _ in range(64)]  # fmt: skip
    settings: dict[str, Any] = {
        "output_dir": str(out), "max_steps": 5, "logging_steps": 1, "per_device_train_batch_size": 8,
        "num_generations": 4, "max_completion_length": 8, "learning_rate": 1e-3, "report_to": "none",
        "save_strategy": "no", "use_cpu": True, "disable_tqdm": True, "seed": 7, "beta": 0.0, "bf16": False,
        "gradient_checkpointing": False,
    }  # fmt: skip
    arguments = GRPOConfig(**{**settings, **changes})
    data = Dataset.from_list(rows)
    return GRPOTrainer(
        model=model, reward_funcs=rewards, args=arguments, train_dataset=data, processing_class=tokenizer
    )


def save_model(folder: Path) -> None:
    """The tiny model and its tokenizer as a folder."""
    from grpo_doctor.engine.tiny import make_model, make_tokenizer

    make_model(0).save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)
