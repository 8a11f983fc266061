"""Which way a loss pushes the tokens of each sample: what its gradient on the logits owes to the advantages.

The gradient at advantages of zero is taken away, so that entropy and KL do not count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .craft import Forward, align, canaries, plain_ids, rendered, special_ids, torch_of, watched, without_dropout
from .seams import Ids, Prompt, Unjudged

SIGNS = (1.0, 1.0, -1.0, -1.0)
"""Advantages of four samples: centred, and changed by every shift, reversal and interleaving of the rows."""


class Push(NamedTuple):
    """What the policy gradient does to one sample."""

    towards: Tensor
    """(R,) how much a step raises the logit of each response token."""
    trained: Tensor
    """(R,) bool: the advantage reaches the logits that predict the token."""
    aimed: Tensor
    """(R,) bool: of these logits the token's own is moved most, up or down."""
    outside: int
    """Positions beside the response that are moved."""


def four(
    render: Callable[[Prompt], Any],
    tokenizer: Any,
    model: Any,
    prompts: Sequence[Prompt] | None,
    lengths: Sequence[int],
) -> tuple[list[Prompt], list[Ids]]:
    """Four prompts, the last one the longest, and canary responses of these lengths, EOS included, no two alike."""
    pairs = rendered(render, prompts)
    words = plain_ids(tokenizer, model, [ids for _, ids in pairs])
    responses = canaries(words, lengths, special_ids(tokenizer).eos)
    return [pairs[n * (len(pairs) - 1) // 3][0] for n in range(4)], responses


def pushes(
    loss: Callable[..., Tensor],
    model: torch.nn.Module,
    prompts: Sequence[Prompt],
    responses: Sequence[Ids],
    *,
    log_ratios: Sequence[float] | None = None,
    temperature: float = 1.0,
) -> list[Push]:
    """One `Push` a sample, at the advantages `SIGNS`.

    Args:
        log_ratios: by how much the policy's log-probability of each sample's first token exceeds the old one, where
            the loss takes old log-probabilities from a forward without gradient.
    """
    with without_dropout(model), _older(model, responses, log_ratios, temperature):
        given = _gradients(loss, model, prompts, responses, torch_of(SIGNS, model))
        without = _gradients(loss, model, prompts, responses, torch_of([0.0] * len(SIGNS), model))
    if not given:
        raise Unjudged("loss made no forward of the model whose logits have a gradient")
    if [g.shape for _, g in given] != [g.shape for _, g in without]:
        without = [(f, torch.zeros_like(g)) for f, g in given]  # dead batches are left out
    parts = [(f, first - second) for (f, first), (_, second) in zip(given, without, strict=True)]
    whole, largest = (max(float(g.abs().max()) for _, g in some) for some in (given, parts))
    return [_push(parts, response, max(1e-5 * largest, 1e-6 * whole)) for response in responses]


def moved_by_reference(
    loss: Callable[..., Tensor],
    model: torch.nn.Module,
    reference: torch.nn.Module | None,
    prompts: Sequence[Prompt],
    responses: Sequence[Ids],
) -> list[int]:
    """For each sample, the positions beside its response that a reference a little away from the policy moves.

    Empty without a reference of its own, or where it moves nothing. The reference's weights are left changed.
    """
    if reference is None or any(p is q for p, q in zip(model.parameters(), reference.parameters(), strict=False)):
        return []
    none = torch_of([0.0] * len(responses), model)
    with without_dropout(model):
        align(reference, model)
        before = _gradients(loss, model, prompts, responses, none)
        with torch.no_grad():
            for parameter in reference.parameters():
                parameter.add_(torch.randn_like(parameter), alpha=0.02)
        after = _gradients(loss, model, prompts, responses, none)
    parts = [(f, first - second) for (f, first), (_, second) in zip(after, before, strict=False)]
    largest = max((float(g.abs().max()) for _, g in parts), default=0.0)
    return [_push(parts, response, 1e-4 * largest).outside for response in responses] if largest else []


def _gradients(loss: Callable[..., Tensor], model: torch.nn.Module, *samples: Any) -> list[tuple[Forward, Tensor]]:
    with watched(model) as forwards:
        value = loss(*samples)
        if value.requires_grad:
            torch.autograd.backward(value)
    return [(f, f.logits.grad.float()) for f in forwards if f.logits.grad is not None]


def _push(parts: Sequence[tuple[Forward, Tensor]], response: Ids, least: float) -> Push:
    for forward, gradient in parts:
        for row in range(len(gradient)):
            predicting = _predicting(forward, row, response)
            if predicting is not None:
                moved = gradient[row].abs().amax(-1) > least
                moved[predicting] = False
                at = gradient[row, predicting]
                target, size = torch.tensor(response, device=at.device), at.abs()
                trained = size.amax(-1) > least
                towards = -at.gather(-1, target[:, None]).squeeze(-1) * trained
                return Push(towards, trained, size.argmax(-1) == target, int(moved.sum()))
    raise Unjudged("the batch of the loss does not hold the sampled ids; see GEN005")


def _predicting(forward: Forward, row: int, response: Ids) -> list[int] | None:
    """The places of a row's logits that predict the response; None where the row does not end with it."""
    ids = forward.input_ids[row]
    real = forward.attention_mask
    places = range(len(ids)) if real is None else real[row].nonzero().flatten().tolist()
    last = list(places)[-len(response) :]
    if ids[last].tolist() != list(response):
        return None
    kept = len(ids) - forward.logits.shape[1]
    return [place - 1 - kept for place in last]


@contextmanager
def _older(
    model: torch.nn.Module, responses: Sequence[Ids], log_ratios: Sequence[float] | None, temperature: float
) -> Iterator[None]:
    """Forwards without gradient give the first token of each response a log-probability lower by its log-ratio."""

    def hook(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
        logits = output if isinstance(output, Tensor) else getattr(output, "logits", None)
        ids = kwargs.get("input_ids", args[0] if args else None)
        if log_ratios is None or logits is None or logits.requires_grad or not isinstance(ids, Tensor):
            return None
        shifted = Forward(ids, kwargs.get("attention_mask", args[1] if len(args) > 1 else None), logits.clone())
        for response, log_ratio in zip(responses, log_ratios, strict=True):
            for row in range(len(ids)):
                predicting = _predicting(shifted, row, response)
                if predicting is not None:
                    _shift(shifted.logits[row, predicting[0]], response[0], log_ratio, temperature)
        if isinstance(output, Tensor):
            return shifted.logits
        output.logits = shifted.logits
        return output

    handle = model.register_forward_hook(hook, with_kwargs=True)
    try:
        yield
    finally:
        handle.remove()


def _shift(logits: Tensor, token: int, log_ratio: float, temperature: float) -> None:
    """Changes one logit (V,) so that its log-probability at the temperature falls by the log-ratio."""
    now = (logits.double() / temperature).log_softmax(-1)[token].exp()
    wanted = (now * torch.exp(torch.tensor(-log_ratio, dtype=now.dtype))).clamp(max=0.99)
    logits[token] += (temperature * (torch.logit(wanted) - torch.logit(now))).to(logits)
