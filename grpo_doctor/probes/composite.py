"""Derives fine-grained entry points from composite entry points, and composite ones from fine-grained ones, so that
each probe is written only once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .crafted_inputs import batch_of
from .entry_points import Adapter, Ids, Prompt
from .from_loss import Lost
from .from_rollout import Remembering, RolloutEntryPoints
from .intercept import logits_of
from .updates import derive_from_step, maximises, turned, updates


def completed(adapter: Adapter) -> dict[str, Callable[..., Any]]:
    """Return the adapter's entry points, plus the entry points that can be derived from them.

    If the optimizer maximises, the sign of the loss and of its gradient is reversed, as probes expect.
    """
    seams: dict[str, Callable[..., Any]] = dict(adapter.seams)
    seams |= {name: without_dead_batches(seams[name]) for name in ("loss", "backward", "step") if name in seams}
    seams |= derive_from_step(seams, adapter)
    rolls = "rollout" in seams and adapter.model is not None
    if rolls:
        seams["rollout"] = rolled = RolloutEntryPoints(adapter)
        seams.setdefault("render", rolled.render)
    if "render" in seams:
        seams["render"] = render = Remembering(seams["render"])
        if rolls:
            rolled.prompts = render.prompts
            seams.setdefault("extract", rolled.extract)
            seams.setdefault("sample", rolled.sample)
        if "loss" in seams and "mask" not in seams and adapter.model is not None:
            lost = Lost(adapter, render, seams["loss"])
            seams.setdefault("mask", lost.mask)
            seams.setdefault("logprobs", lost.logprobs)
            seams.setdefault("reference_logprobs", lost.reference_logprobs)
    if "loss" not in seams and {"render", "mask", "logprobs", "objective"} <= seams.keys():
        seams["loss"] = _loss_of(seams, adapter)
    seams |= updates(seams, adapter)
    return seams | turned(seams, adapter) if maximises(adapter.optimizer) else seams


def without_dead_batches(seam: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a loss or an update so that it skips a batch of equal advantages that it cannot whiten (standard deviation
    0).

    A trainer that samples until the rewards of a group differ never gets a batch of equal advantages, and needs no
    epsilon.
    """

    @functools.wraps(seam)
    def lively(prompts: Any, responses: Any, advantages: Tensor, *more: Any, **named: Any) -> Any:
        dead = bool((advantages == advantages[0]).all())
        try:
            value = seam(prompts, responses, advantages, *more, **named)
        except ZeroDivisionError:
            if not dead:
                raise
            return torch.zeros(())
        lost = dead and isinstance(value, Tensor) and not bool(value.isfinite().all())
        return torch.zeros_like(value) if lost else value

    return lively


def _loss_of(seams: dict[str, Callable[..., Any]], adapter: Adapter) -> Callable[..., Tensor]:
    def loss(prompts: Sequence[Prompt], responses: Sequence[Ids], advantages: Tensor) -> Tensor:
        batch = batch_of(seams["mask"]([seams["render"](p) for p in prompts], responses))
        ids, real, _ = batch
        new = seams["logprobs"](ids, real)
        with torch.no_grad():
            old = seams["old_logprobs"](ids, real) if "old_logprobs" in seams else new.detach()
            ref = seams["reference_logprobs"](ids, real) if "reference_logprobs" in seams else new.detach()
        assert adapter.model is not None
        table = logits_of(adapter.model, ids, real).float().log_softmax(-1)[:, -new.shape[1] - 1 : -1]
        entropy = -(table.exp() * table).sum(-1)
        mask = batch.mask[:, -new.shape[1] :]
        out: Tensor = seams["objective"](new, old, ref, advantages, mask, entropy)
        return out

    return loss
