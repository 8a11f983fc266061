"""Tests whether a loss and its gradient stay finite at extremely low log-probabilities."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from .entry_points import Ids, Prompt
from .gradient_effect import SIGNS
from .intercept import Forward, ending_at_logits, forwards
from .loss_trials import torch_of, trainable
from .model_modes import fixed_chance, without_dropout
from .sample_layout import Sample, located

_REFUSED = (ArithmeticError, AssertionError, RuntimeError, ValueError)
"""Exceptions with which a trainer may reject input that it cannot train on."""


def finite(
    loss: Callable[..., Tensor],
    models: Sequence[Any],
    prompts: Sequence[Prompt],
    responses: Sequence[Ids],
    by: float,
    *,
    policy: bool = False,
    beside: bool = False,
    padding: bool = False,
) -> bool:
    """Return whether a loss and its gradient are finite after some log-probabilities are lowered by a number of nats. A
    loss that rejects the input also counts as finite.

    Args:
        models: the policy, then the reference or None.
        by: number of nats to subtract at the first token of each response or, with ``padding``, at every padding token.
        policy: lower the log-probabilities in the forward passes with a gradient.
        beside: lower the log-probabilities in the passes without a gradient, which score the old policy and the
            reference.
    """
    with without_dropout(models[0]), ending_at_logits(), _lowered(models, responses, by, policy, beside, padding):
        fixed_chance()
        try:
            value = loss(prompts, responses, torch_of(SIGNS, models[0]))
            if value.requires_grad:
                torch.autograd.backward(value)
        except _REFUSED:
            return True
    gradients = [p.grad for _, p in trainable(models[0]) if p.grad is not None]
    models[0].zero_grad(set_to_none=True)
    return bool(value.isfinite().all()) and all(bool(g.isfinite().all()) for g in gradients)


@contextmanager
def _lowered(
    models: Sequence[Any], responses: Sequence[Ids], by: float, policy: bool, beside: bool, padding: bool
) -> Iterator[None]:
    def lower(forward: Forward) -> Tensor | None:
        if not (policy if forward.logits.requires_grad else beside):
            return None
        if forward.logits.requires_grad:
            forward.logits.retain_grad()  # the gradient helps to locate a sample
        samples = [s for s in located([forward], [[]] * len(responses), responses) if s is not None]
        less = torch.zeros_like(forward.logits)
        for row, place, token in _padding(forward, samples) if padding else _first_tokens(samples):
            less[row, place, token] = by
        return forward.logits - less

    with forwards(models, lower):
        yield


def _first_tokens(samples: Sequence[Sample]) -> list[tuple[int, int, int]]:
    """Return the row, the logit position and the token at the start of each response."""
    return [(s.row, s.predicting()[0], s.response[0]) for s in samples if s.predicting()[0] >= 0]


def _padding(forward: Forward, samples: Sequence[Sample]) -> list[tuple[int, int, int]]:
    """Return the row, the logit position and the token of each padding token. Padding is not attended to or, if there
    is no mask, follows the last sample of a row."""
    kept = forward.input_ids.shape[1] - forward.logits.shape[1]
    out = []
    for row in sorted({s.row for s in samples}):
        end = max(s.said + len(s.response) for s in samples if s.row == row)
        for n, token in enumerate(forward.input_ids[row].tolist()):
            mask = forward.attention_mask
            if n > kept and (n >= end if mask is None else not mask[row, n]):
                out.append((row, n - 1 - kept, token))
    return out
