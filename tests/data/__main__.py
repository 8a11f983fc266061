"""Writes the logs of this folder: ``python -m tests.data LAB``, where LAB is the output folder of ``grpo-doctor lab
--out LAB``. The engine's logs are compressed copies of untreated lab runs. TRL's are written by its own trainer and by
transformers' TensorBoard callback: one run whose reward is the share of words of the first half of the alphabet, one
whose reward is always 0, and a supervised one that memorises eight random sentences.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.data import DATA
from tests.integrations.tiny_trl import constant, make_trainer

FAULTS = (
    "constant-reward",
    "flipped-entropy",
    "kl-dominates",
    "lr-too-high",
    "nan-at-step",
    "rank-advantages",
    "stale-rollout-weights",
    "train-mode-generation",
    "truncation",
    "two-sample-groups",
)


def early(completions: list[Any], **_: Any) -> list[float]:
    """Share of the words that begin with a letter before n."""
    texts = [c[0]["content"].lower().split() for c in completions]
    return [sum(word < "n" for word in text) / max(len(text), 1) for text in texts]


def engine(lab: Path) -> None:
    """Compress the records of the lab's runs without a timestamp, so that the same run gives the same file."""
    for fault in FAULTS:
        records = (lab / fault / "0" / "left-alone.jsonl").read_bytes()
        (DATA / "engine" / f"{fault}.jsonl.gz").write_bytes(gzip.compress(records, mtime=0))


def supervised(out: Path, **changes: Any) -> Any:
    """A trainer on eight sentences of random words, held out against eight others."""
    from datasets import Dataset
    from trl.trainer.sft_config import SFTConfig
    from trl.trainer.sft_trainer import SFTTrainer

    from grpo_doctor.engine.tiny import make_model, make_tokenizer

    tokenizer, rng = make_tokenizer(), random.Random(0)
    words = sorted(w for w in tokenizer.get_vocab() if w.isalpha())
    data = Dataset.from_list([{"text": " ".join(rng.choices(words, k=12))} for _ in range(16)])
    arguments = SFTConfig(
        str(out), per_device_train_batch_size=8, logging_steps=1, eval_strategy="steps", eval_steps=5,
        learning_rate=1e-2, lr_scheduler_type="constant", save_strategy="no", use_cpu=True, disable_tqdm=True, seed=7,
        bf16=False, gradient_checkpointing=False, **changes,
    )  # fmt: skip
    return SFTTrainer(
        model=make_model(0), args=arguments, train_dataset=data.select(range(8)), eval_dataset=data.select(range(8, 16)),
        processing_class=tokenizer,
    )  # fmt: skip


def learn(model: Any, tokenizer: Any, texts: list[str]) -> None:
    """Make the model memorise these texts of equal length."""
    import torch

    ids = tokenizer(texts, return_tensors="pt").input_ids
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(60):
        model(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def pairs(out: Path, alike: bool = False, **changes: Any) -> Any:
    """A trainer on 64 pairs of twelve random words, whose rejected responses have other words; or on 8 memorised pairs
    that differ only in the last word."""
    from datasets import Dataset
    from trl.trainer.dpo_config import DPOConfig
    from trl.trainer.dpo_trainer import DPOTrainer

    from grpo_doctor.engine.tiny import make_model, make_tokenizer

    tokenizer, rng = make_tokenizer(), random.Random(0)
    words = sorted(w for w in tokenizer.get_vocab() if w.isalpha())
    texts = [rng.choices(words[: len(words) // 2], k=12) for _ in range(8 if alike else 64)]
    others = [[*text[:-1], words[-1]] if alike else rng.choices(words[len(words) // 2 :], k=12) for text in texts]
    data = Dataset.from_list(
        [{"prompt": f"{text[0]} ", "chosen": " ".join(text[1:]), "rejected": " ".join(other[1:])}
         for text, other in zip(texts, others, strict=True)]
    )  # fmt: skip
    arguments = DPOConfig(
        str(out), per_device_train_batch_size=8, logging_steps=1, lr_scheduler_type="constant", save_strategy="no",
        use_cpu=True, disable_tqdm=True, seed=7, bf16=False, gradient_checkpointing=False, **changes,
    )  # fmt: skip
    models = [make_model(0), make_model(0)]
    if alike:
        for model in models:
            learn(model, tokenizer, [" ".join(text) for text in (*texts, *others)])
    return DPOTrainer(
        model=models[0], ref_model=models[1], args=arguments, train_dataset=data, processing_class=tokenizer
    )


def trl(name: str, steps: int, make: Callable[..., Any] = make_trainer, **changes: Any) -> None:
    """Train the tiny model and keep what the trainer printed and wrote."""
    folder, console = DATA / "trl" / name, io.StringIO()
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as room:
        os.environ["TENSORBOARD_LOGGING_DIR"] = f"{room}/tensorboard"
        trainer = make(Path(room, "out"), max_steps=steps, report_to="tensorboard", run_name=name, **changes)
        with contextlib.redirect_stdout(console):
            trainer.train()
        (events,) = Path(room, "tensorboard").rglob("events.out.tfevents.*")
        (folder / "events.out.tfevents.0").write_bytes(events.read_bytes())
    (folder / "train.log").write_text(console.getvalue(), encoding="utf-8")
    trainer.state.save_to_json(str(folder / "trainer_state.json"))


if __name__ == "__main__":
    (DATA / "engine").mkdir(exist_ok=True)
    engine(Path(sys.argv[1]))
    trl("learns", 40, rewards=early, learning_rate=1e-2, per_device_train_batch_size=16)
    trl("never-pays", 24, rewards=constant)
    trl("overfits", 40, supervised)
    trl("saturates", 60, pairs, learning_rate=1e-2)
    trl("displaces", 60, pairs, alike=True, learning_rate=3e-3)
