"""The embedded models, with their own tokenizer and a supervised warm-up. The decoders have 0.5 million weights, a
tenth of this number (for experiments with many runs), or 46 million weights (for a GPU).

The weights depend only on the seed, except for rounding, which differs between devices. The weights are cached in the
user's cache folder, under a hash of everything that determines them.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from . import tools
from .task import DISTRACTORS, KINDS, LEVELS, PIECES, TARGETS, Dialogue, demonstration, make_example

PAD, UNK, START, END = "<pad>", "<unk>", "<|im_start|>", "<|im_end|>"
TURNS = (PAD, UNK, START, END, "system", "user", "assistant")
WORDS = (*TURNS, "spell", *PIECES, "->", "?", ":", "done", *KINDS, *LEVELS, *DISTRACTORS)
VOCABULARY = 96
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
    "embedded-large": {
        **MODEL,
        **{"hidden_size": 768, "intermediate_size": 2304, "num_hidden_layers": 6},
        **{"num_attention_heads": 12, "num_key_value_heads": 12},
    },
}
"""The embedded models by name. A step of the small model takes a third of the time, but the model learns less. The
large model is for a GPU."""
RATES = {"embedded": 2e-3, "embedded-small": 2e-3, "embedded-large": 5e-4}
"""Learning rates of the warm-up."""
BATCH, SEED = 32, 0
"""Batch size and seed of the warm-up."""


class Course(NamedTuple):
    """The warm-up of a model: the words of its tokenizer, the number of steps, and a function that draws a prompt and
    the words of a response."""

    words: tuple[str, ...]
    steps: int
    draw: Callable[[random.Random], tuple[Dialogue, list[str]]]


def _workflow(rng: random.Random) -> tuple[Dialogue, list[str]]:
    example = make_example(rng)
    target = TARGETS[example.columns["kind"], example.columns["level"]]
    return example.dialogue, demonstration(rng, target, hint=0.1, bias=6.0, corrupted=0.12)


def _with_tools(rng: random.Random) -> tuple[Dialogue, list[str]]:
    example = tools.make_example(rng)
    return example.dialogue, tools.demonstration(rng, example, careful=0.7, direct=0.15)


WORKFLOWS = Course(WORDS, 260, _workflow)
COURSES = {"tools": Course((*TURNS, *tools.WORDS), 700, _with_tools)}
"""The warm-up for each task. Tasks without an entry start from the model that writes workflows."""


def make_tokenizer(words: tuple[str, ...] = WORDS) -> PreTrainedTokenizerFast:
    """Build a tokenizer of whole words, in which one token ends both a turn and a response."""
    words = (*words, *(f"<unused{n}>" for n in range(VOCABULARY - len(words))))
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


def embedded(
    name: str = "embedded", task: str = "embedded", device: str = "cpu"
) -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast]:
    """Return the model, warmed up on this device, and its tokenizer. The weights come from the cache if possible."""
    course = COURSES.get(task, WORKFLOWS)
    tokenizer, model = make_tokenizer(course.words), make_model(SEED, **SIZES[name])
    model.to(torch.device(device))  # type: ignore[arg-type]
    model.train(False)
    path = cache_file(name, task)
    if path.is_file():
        model.load_state_dict(torch.load(path, weights_only=True))
        return model, tokenizer
    warm_up(model, tokenizer, course, RATES[name])
    model.train(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(f".{os.getpid()}.part")
    torch.save(model.state_dict(), draft)
    draft.replace(path)
    return model, tokenizer


def cache_file(name: str = "embedded", task: str = "embedded") -> Path:
    """Return the file of the warmed-up weights, in ``GRPO_DOCTOR_CACHE`` or the platform's cache folder."""
    from platformdirs import user_cache_path

    folder, course, rng = os.environ.get("GRPO_DOCTOR_CACHE"), COURSES.get(task, WORKFLOWS), random.Random(SEED)
    drawn = [course.draw(rng) for _ in range(100)]
    parts = [SIZES[name], course.steps, BATCH, RATES[name], course.words, TEMPLATE, drawn, torch.__version__]
    key = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
    return (Path(folder) if folder else user_cache_path("grpo-doctor", appauthor=False)) / f"embedded-{key}.pt"


def warm_up(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, course: Course, rate: float) -> None:
    """Train on workflows that are mostly valid but only sometimes correct, so that the policy can still improve."""
    rng = random.Random(SEED)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / course.steps)
    model.train()
    for _ in range(course.steps):
        ids, mask, labels = (part.to(model.device) for part in _warm_up_batch(rng, tokenizer, course))
        loss = model(input_ids=ids, attention_mask=mask, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()


def _warm_up_batch(rng: random.Random, tokenizer: PreTrainedTokenizerFast, course: Course) -> tuple[torch.Tensor, ...]:
    """Return left-padded ids [B, W], attention mask [B, W], and labels [B, W] that are -100 outside the response."""
    rows, ids_of_words = [], tokenizer.get_vocab()
    for _ in range(BATCH):
        dialogue, words = course.draw(rng)
        prompt = tokenizer.apply_chat_template(dialogue, add_generation_prompt=True, tokenize=True, return_dict=False)
        answer = [ids_of_words[word] for word in (*words, END)]
        own = [id_ if place == 0 else -100 for id_, place in zip(answer, tools.places([*words, END]), strict=False)]
        rows.append((list(prompt), answer, own))
    width = max(len(p) + len(a) for p, a, _ in rows)
    ids = [[0] * (width - len(p) - len(a)) + p + a for p, a, _ in rows]
    mask = [[0] * (width - len(p) - len(a)) + [1] * (len(p) + len(a)) for p, a, _ in rows]
    labels = [[-100] * (width - len(own)) + own for _, _, own in rows]
    return torch.tensor(ids), torch.tensor(mask), torch.tensor(labels)
