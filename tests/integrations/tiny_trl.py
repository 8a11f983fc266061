"""A GRPOTrainer small enough for tests: the engine's embedded model shape, random weights, a verifiable reward."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any


def reward(prompts: list[Any], completions: list[Any], answer: list[str], **_: Any) -> list[float]:
    """Share of the words that equal the requested one."""
    texts = [c[0]["content"].split() for c in completions]
    return [sum(w == a for w in t) / max(len(t), 1) for t, a in zip(texts, answer, strict=True)]


def constant(completions: list[Any], **_: Any) -> list[float]:
    return [0.0] * len(completions)


def poisoned(trainer: Any, step: int) -> None:
    """The loss of one step becomes NaN, as with a faulty kernel."""
    original = trainer.compute_loss

    def compute_loss(model: Any, inputs: Any, *arguments: Any, **named: Any) -> Any:
        loss = original(model, inputs, *arguments, **named)
        return loss * math.nan if trainer.state.global_step == step - 1 else loss

    trainer.compute_loss = compute_loss


def fails_at(call: int, original: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with a fault at one of its calls and at every later one."""
    calls = 0

    def failing(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls >= call:
            raise ZeroDivisionError("a fault of the doctor")
        return original(*arguments, **named)

    return failing


def make_trainer(
    out: Path,
    *,
    kind: str = "GRPO",
    lora: bool = False,
    rewards: Any = reward,
    seed: int = 0,
    rollout_func: Any = None,
    **changes: Any,
) -> Any:
    """A trainer of this kind on the engine's tiny model and tokenizer; ``changes`` go to its configuration."""
    import torch
    import trl
    from datasets import Dataset

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
    more = {"rollout_func": rollout_func} if rollout_func else {}  # older trainers have none
    arguments = getattr(trl, f"{kind}Config")(**{**settings, **changes})
    data = Dataset.from_list(rows)
    return getattr(trl, f"{kind}Trainer")(
        model=model, reward_funcs=rewards, args=arguments, train_dataset=data, processing_class=tokenizer, **more
    )


def save_model(folder: Path) -> None:
    """The tiny model and its tokenizer as a folder."""
    from grpo_doctor.engine.tiny import make_model, make_tokenizer

    make_model(0).save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)


def two_turns(prompts: list[Any], trainer: Any) -> dict[str, list[Any]]:
    """A rollout of two turns with words of an environment in between, whose log-probabilities are 0 by convention."""
    import torch

    tokenizer, model = trainer.processing_class, trainer.accelerator.unwrap_model(trainer.model)
    answer = [{"role": "user", "content": "custom"}]
    environment = tokenizer.apply_chat_template(answer, add_generation_prompt=True, tokenize=True, return_dict=False)
    out: dict[str, list[Any]] = {"prompt_ids": [], "completion_ids": [], "logprobs": [], "env_mask": []}

    def turn(ids: list[int]) -> list[int]:
        drawn = model.generate(
            torch.tensor([ids]), max_new_tokens=24, do_sample=True, temperature=1.0, top_k=0, top_p=1.0,
            pad_token_id=tokenizer.pad_token_id,
        )  # fmt: skip
        return [int(i) for i in drawn[0, len(ids) :]]

    model.eval()
    with torch.no_grad():
        for prompt in prompts:
            ids = tokenizer.apply_chat_template(prompt, add_generation_prompt=True, tokenize=True, return_dict=False)
            first = turn(ids)
            second = turn([*ids, *first, *environment])
            completion = [*first, *environment, *second]
            own = [1] * len(first) + [0] * len(environment) + [1] * len(second)
            logits = model(torch.tensor([[*ids, *completion]])).logits[0, len(ids) - 1 : -1]
            logprobs = logits.log_softmax(-1).gather(1, torch.tensor(completion)[:, None])[:, 0]
            out["prompt_ids"].append(ids)
            out["completion_ids"].append(completion)
            out["logprobs"].append((logprobs * torch.tensor(own)).tolist())
            out["env_mask"].append(own)
    model.train()
    return out
