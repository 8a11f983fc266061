"""Generates rollouts with transformers' ``generate``, in the mode in which rollouts are correct."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList

from .settings import Settings


def checkpointing(model: Any) -> bool:
    """Return whether gradient checkpointing is on."""
    return any(getattr(module, "gradient_checkpointing", False) for module in model.modules())


@contextmanager
def generation_state(model: Any) -> Iterator[None]:
    """Use eval mode without gradient checkpointing inside the block. Both settings are restored, even after an error.

    In train mode with gradient checkpointing, transformers drops the KV cache in each layer. ``generate`` passes one
    token at a time, so the model then ignores all earlier tokens.
    """
    was_training, was_checkpointing = model.training, checkpointing(model)
    model.eval()
    if was_checkpointing:
        _switch(model, "disable")
    try:
        yield
    finally:
        if was_checkpointing:
            enable_checkpointing(model)
        model.train(was_training)


def enable_checkpointing(model: Any) -> None:
    """Enable gradient checkpointing in the form that recomputes without re-entering autograd."""
    _switch(model, "enable", {"use_reentrant": False})


def _switch(model: Any, verb: str, *options: dict[str, bool]) -> None:
    """Call the method that switches gradient checkpointing under its name in this version of transformers (version 6
    removes the old name)."""
    name = "activation" if hasattr(model, "activation_checkpointing_enable") else "gradient"
    getattr(model, f"{name}_checkpointing_{verb}")(*options)


class Generated(NamedTuple):
    """The output of a generator for N prompts of width P, with at most R tokens per prompt."""

    tokens: Tensor  # [N, P + R] prompt and response, padded after the end of a response
    logprobs: Tensor  # [N, R] log-probability of each sampled token, by the final scores
    raw_logprobs: Tensor  # [N, R] log-probability of each sampled token, by the unmodified logits
    eos_suppressed: Tensor  # [N] of bool: EOS was the most likely token before it was allowed
    training_mode: bool
    checkpointing: bool


class _Penalty(LogitsProcessor):
    """Applies the trainer's penalties inside ``generate``."""

    def __init__(self, penalize: Callable[[Tensor, Tensor, int], Tensor], prompt_length: int) -> None:
        self.penalize, self.prompt_length = penalize, prompt_length

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        return self.penalize(input_ids, scores, self.prompt_length)


@torch.no_grad()
def generate(
    model: Any,
    input_ids: Tensor,
    attention_mask: Tensor,
    settings: Settings,
    eos: list[int],
    pad: int,
    penalize: Callable[[Tensor, Tensor, int], Tensor],
) -> Generated:
    """Sample one response for each left-padded prompt [N, P], in the current mode of the model."""
    config: Any = GenerationConfig(  # type: ignore[no-untyped-call]
        do_sample=True,
        temperature=settings.temperature,
        top_p=settings.top_p,
        top_k=settings.top_k,
        min_new_tokens=settings.min_new_tokens or None,
        max_new_tokens=settings.max_completion_length,
        eos_token_id=eos,
        pad_token_id=pad,
        return_dict_in_generate=True,
        output_logits=True,
        output_scores=True,
    )
    width = input_ids.shape[1]
    state = (bool(model.training), checkpointing(model))
    out = model.generate(
        input_ids=input_ids,
        attention_mask=attention_mask,
        generation_config=config,
        logits_processor=LogitsProcessorList([_Penalty(penalize, width)]),
    )
    drawn = out.sequences[:, width:]
    early = out.logits[: settings.min_new_tokens]
    suppressed = torch.zeros(len(drawn), dtype=torch.bool, device=drawn.device)
    for logits in early:
        suppressed |= torch.isin(logits.argmax(-1), torch.tensor(eos, device=drawn.device))
    return Generated(
        out.sequences, _sampled_logprobs(out.scores, drawn), _sampled_logprobs(out.logits, drawn), suppressed, *state
    )


def _sampled_logprobs(logits: tuple[Tensor, ...], drawn: Tensor) -> Tensor:
    """Return log-probabilities [N, R] of the sampled tokens, from R tensors [N, V]."""
    columns = []
    for t, step in enumerate(logits):
        step = step.float()
        columns.append(step.gather(1, drawn[:, t : t + 1]).squeeze(1) - step.logsumexp(-1))
    return torch.stack(columns, 1)
