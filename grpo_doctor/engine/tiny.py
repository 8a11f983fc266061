"""The embedded models: a decoder with half a million weights, and one a tenth of that size for many runs, with their
own tokenizer and a supervised warm-up.

The weights depend only on the seed, and are cached in the user's cache folder under a hash of all inputs.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from .task import DISTRACTORS, KINDS, LEVELS, OPERATORS, PIECES, TARGETS, demonstration, make_example

PAD, UNK, START, END = "<pad>", "<unk>", "<|im_start|>", "<|im_end|>"
WORDS = (
    PAD, UNK, START, END, "system", "user", "assistant", "spell", *PIECES, "->", "?", ":", "done",
    *KINDS, *LEVELS, *DISTRACTORS,
)  # fmt: skip
VOCABULARY = 96
VOCABULARY_IDS = {word: i for i, word in enumerate(WORDS)}
TEMPLATE = (
    "{% for m in messages %}{{ '<|im_start|> ' + m['role'] + ' ' + m['content'] + ' <|im_end|> ' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|> assistant ' }}{% endif %}"
)

MODEL = {
    "hidden_size": 128,
    "intermediate_size": 384,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "max_position_embeddings": 256,
    "vocab_size": VOCABULARY,
    "tie_word_embeddings": False,
    "attention_dropout": 0.0,
}
SIZES: dict[str, dict[str, Any]] = {
    "embedded": MODEL,
    "embedded-small": {
        **MODEL,
        **{"hidden_size": 64, "intermediate_size": 192, "num_hidden_layers": 1},
        **{"num_attention_heads": 2, "num_key_value_heads": 2},
    },
}
"""The embedded models by name. A step of the small one takes a third of the time, and it learns less."""
WARM_UP = {"steps": 260, "batch": 32, "learning_rate": 2e-3, "hint": 0.1, "bias": 6.0, "corrupted": 0.12, "seed": 0}


def make_tokenizer() -> PreTrainedTokenizerFast:
    """Build a tokenizer of whole words; the end of a turn is also the end of a response."""
    words = [*WORDS, *(f"<unused{n}>" for n in range(VOCABULARY - len(WORDS)))]
    inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token=UNK))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer: PreTrainedTokenizerFast = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=inner,
        pad_token=PAD,
        unk_token=UNK,
        eos_token=END,
        additional_special_tokens=[START],
        padding_side="left",
        model_input_names=["input_ids", "attention_mask"],
    )
    tokenizer.chat_template = TEMPLATE
    return tokenizer


def make_model(seed: int = 0, **changes: Any) -> LlamaForCausalLM:
    """Build the decoder with random weights."""
    torch.manual_seed(seed)
    config = LlamaConfig(**{**MODEL, **changes}, bos_token_id=None, eos_token_id=3, pad_token_id=0)
    return LlamaForCausalLM(config)


def embedded(name: str = "embedded") -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast]:
    """Return the warmed-up model and its tokenizer, from the cache if possible."""
    tokenizer, model = make_tokenizer(), make_model(int(WARM_UP["seed"]), **SIZES[name])
    model.train(False)
    path = cache_file(name)
    if path.is_file():
        model.load_state_dict(torch.load(path, weights_only=True))
        return model, tokenizer
    warm_up(model, tokenizer)
    model.train(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(f".{os.getpid()}.part")
    torch.save(model.state_dict(), draft)
    draft.replace(path)
    return model, tokenizer


def cache_file(name: str = "embedded") -> Path:
    """Return the file of the warmed-up weights: in ``GRPO_DOCTOR_CACHE`` or the platform's cache folder."""
    from platformdirs import user_cache_path

    folder = os.environ.get("GRPO_DOCTOR_CACHE")
    targets = {" ".join(key): target.words() for key, target in TARGETS.items()}
    parts = [SIZES[name], WARM_UP, WORDS, TEMPLATE, targets, OPERATORS, torch.__version__]
    key = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
    return (Path(folder) if folder else user_cache_path("grpo-doctor", appauthor=False)) / f"embedded-{key}.pt"


def warm_up(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast) -> None:
    """Train on workflows that are mostly valid and sometimes right, so the policy has room to learn."""
    rng = random.Random(WARM_UP["seed"])
    steps = int(WARM_UP["steps"])
    optimizer = torch.optim.AdamW(model.parameters(), lr=WARM_UP["learning_rate"], weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / steps)
    model.train()
    for _ in range(steps):
        ids, mask, labels = _warm_up_batch(rng, tokenizer, int(WARM_UP["batch"]))
        loss = model(input_ids=ids, attention_mask=mask, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()


def _warm_up_batch(rng: random.Random, tokenizer: PreTrainedTokenizerFast, size: int) -> tuple[torch.Tensor, ...]:
    """Return left-padded ids [B, W], attention mask [B, W], and labels [B, W] that are -100 outside the response."""
    rows = []
    for _ in range(size):
        example = make_example(rng)
        target = TARGETS[example.columns["kind"], example.columns["level"]]
        words = demonstration(rng, target, **{name: WARM_UP[name] for name in ("hint", "bias", "corrupted")})
        prompt = tokenizer.apply_chat_template(
            example.dialogue, add_generation_prompt=True, tokenize=True, return_dict=False
        )
        answer: list[int] = [VOCABULARY_IDS[word] for word in (*words, END)]
        rows.append((list(prompt), answer))
    width = max(len(p) + len(a) for p, a in rows)
    ids = [[0] * (width - len(p) - len(a)) + p + a for p, a in rows]
    mask = [[0] * (width - len(p) - len(a)) + [1] * (len(p) + len(a)) for p, a in rows]
    labels = [[-100] * (width - len(a)) + a for p, a in rows]
    return torch.tensor(ids), torch.tensor(mask), torch.tensor(labels)
