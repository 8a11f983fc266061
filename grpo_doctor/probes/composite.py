"""Fine seams out of composite ones, and composite ones out of fine ones, so that every probe is written once.

`rollout` is called with a scripted ``generate``: what it gave to generate is what it renders, and what it makes of
canary ids is what it extracts. `loss` is called on a watched model: the ids of its forward are the batch, the
positions at which its gradient on the logits is not zero are the mask, and the logits give the log-probabilities.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .craft import Forward, batch_of, device_of, flat_ids, scripted_generate, special_ids, watched
from .seams import Adapter, Batch, Ids, Prompt, Unjudged


def completed(adapter: Adapter) -> dict[str, Callable[..., Any]]:
    """The adapter's seams with those that follow from them."""
    seams = dict(adapter.seams)
    rolls = "rollout" in seams and adapter.model is not None
    if rolls:
        seams.setdefault("render", _Rolled(adapter).render)
    if "render" in seams:
        render = _Remembering(seams["render"])
        seams["render"] = render
        if rolls:
            seams.setdefault("extract", _Rolled(adapter, render).extract)
        if "loss" in seams and "mask" not in seams and adapter.model is not None:
            lost = _Lost(adapter, render)
            seams |= {"mask": lost.mask, "logprobs": lost.logprobs, "reference_logprobs": lost.reference_logprobs}
            seams |= {name: f for name, f in adapter.seams.items() if name != "render"}
    if "loss" not in seams and {"render", "mask", "logprobs", "objective"} <= seams.keys():
        seams["loss"] = _loss_of(seams, adapter)
    if "backward" not in seams and "loss" in seams:
        seams["backward"] = PlainBackward(seams["loss"])
    if "step" not in seams and adapter.optimizer is not None and "backward" in seams:
        seams["step"] = PlainStep(seams["backward"], adapter.optimizer)
    return seams


class PlainBackward:
    """``loss(...).backward()``, where the adapter has no `backward` of its own."""

    def __init__(self, loss: Callable[..., Tensor]) -> None:
        self.loss = loss

    def __call__(self, prompts: Sequence[Prompt], responses: Sequence[Ids], advantages: Tensor) -> None:
        value = self.loss(prompts, responses, advantages)
        if value.requires_grad:  # else nothing is connected, which is STL004's to say
            torch.autograd.backward(value)


class _Remembering:
    """Renders, and remembers which prompt gave which ids: composite seams take prompts where fine ones take ids."""

    def __init__(self, render: Callable[[Prompt], Any]) -> None:
        self.render = render
        self.prompts: dict[tuple[int, ...], Prompt] = {}

    def __call__(self, prompt: Prompt) -> Ids:
        ids = flat_ids(self.render(prompt))
        self.prompts[tuple(ids)] = prompt
        return ids

    def back(self, rows: Sequence[Ids]) -> list[Prompt]:
        """The prompts of these ids."""
        try:
            return [self.prompts[tuple(row)] for row in rows]
        except KeyError:
            raise Unjudged("a composite seam takes only the adapter's own prompts") from None


class _Rolled:
    """Seams out of `rollout`."""

    def __init__(self, adapter: Adapter, render: _Remembering | None = None) -> None:
        self.adapter, self.rollout = adapter, adapter.seams["rollout"]
        self.pad = special_ids(adapter.tokenizer).pad
        self.prompts: dict[tuple[int, ...], Prompt] = {} if render is None else render.prompts

    def render(self, prompt: Prompt) -> Ids:
        """What `rollout` gives to generate for this prompt."""
        with scripted_generate(self.adapter.model, [[self.pad]], self.pad) as calls:
            self.rollout([prompt])
        if not calls:
            raise Unjudged("rollout never called model.generate")
        ids = [int(i) for i, real in zip(calls[0].input_ids[0], calls[0].attention_mask[0], strict=True) if real]
        self.prompts[tuple(ids)] = prompt
        return ids

    def extract(self, tokens: Tensor, input_ids: Tensor, attention_mask: Tensor) -> Any:
        """What `rollout` returns when generate answers with the right part of these tokens."""
        rows = [tuple(r[m > 0].tolist()) for r, m in zip(input_ids, attention_mask, strict=True)]
        if any(row not in self.prompts for row in rows):
            raise Unjudged("rollout takes only the adapter's own prompts")
        answers = [r.tolist() for r in tokens[:, input_ids.shape[1] :]]
        with scripted_generate(self.adapter.model, answers, self.pad) as calls:
            found = self.rollout([self.prompts[row] for row in rows])
        if not calls:
            raise Unjudged("rollout never called model.generate")
        return found


class _Lost:
    """Seams out of `loss`."""

    def __init__(self, adapter: Adapter, render: _Remembering) -> None:
        self.adapter, self.render, self.loss = adapter, render, adapter.seams["loss"]
        self.rows: list[_Row] = []
        self.reference: list[_Row] = []

    def mask(self, prompts: Sequence[Ids], responses: Sequence[Ids]) -> Batch:
        """The batch that the loss puts through the policy, one forward or several, and where its gradient is."""
        model, reference = self.adapter.model, self.adapter.reference
        assert model is not None
        advantages = torch.linspace(1.0, 2.0, len(prompts), device=device_of(model))
        with watched(model) as seen, watched(reference if reference is not None else torch.nn.Module()) as other:
            self.loss(self.render.back(prompts), [list(r) for r in responses], advantages).backward()
        policy = _rows([f for f in seen if f.logits.requires_grad])
        if not policy:
            raise Unjudged("loss made no forward of the model with logits")
        self.rows = _in_order(policy, prompts, responses)
        self.reference = _rows(other) or _rows([f for f in seen if not f.logits.requires_grad])
        ids, real, mask = zip(*(row.batch() for row in self.rows), strict=True)
        pad = special_ids(self.adapter.tokenizer).pad
        return batch_of((_stacked(ids, pad), _stacked(real, 0), _stacked(mask, 0)))

    def logprobs(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """From the logits of the last loss, for the batch that `mask` returned."""
        return _stacked([row.logprobs() for row in self.rows], 0.0)

    def reference_logprobs(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """The same from the forwards of the reference.

        Where one model stands for both (an adapter that is switched off), its forwards without gradient may be the
        old policy's as well: those count that are farthest from the policy.
        """
        if not self.reference:
            raise Unjudged("loss made no forward of the reference")
        if {r.key() for r in self.reference} != {r.key() for r in self.rows}:
            raise OtherTokensError
        found = []
        for row in self.rows:
            own = row.logprobs()
            same = [r.logprobs() for r in self.reference if r.key() == row.key()]
            found.append(max(same, key=lambda other: float((other - own).abs().max())))
        return _stacked(found, 0.0)


class _Row(NamedTuple):
    """One row of a forward."""

    forward: Forward
    at: int

    def ids(self) -> Tensor:
        """(T,)"""
        return self.forward.input_ids[self.at]

    def real(self) -> Tensor:
        """(T,)"""
        mask = self.forward.attention_mask
        return torch.ones_like(self.ids()) if mask is None else mask[self.at]

    def key(self) -> tuple[int, ...]:
        """The ids with their padding."""
        return tuple(self.ids().tolist())

    def batch(self) -> tuple[Tensor, Tensor, Tensor]:
        """Ids, attention mask and where the gradient reaches, each (1, T)."""
        ids, logits = self.ids(), self.forward.logits
        mask = torch.zeros_like(ids, dtype=torch.bool)
        if logits.grad is not None:
            touched = logits.grad[self.at].abs().amax(-1) > 0
            start = len(ids) - len(touched) + 1
            mask[start:] = touched[: len(ids) - start]
        return ids[None], self.real()[None], mask[None]

    def logprobs(self) -> Tensor:
        """(1, T-1) at temperature 1."""
        ids = self.ids()
        table = self.forward.logits[self.at].detach().float().log_softmax(-1)
        start = len(ids) - len(table)
        following = ids[start + 1 :]
        found = table[: len(following)].gather(-1, following[:, None]).squeeze(-1)
        return torch.nn.functional.pad(found, (len(ids) - 1 - len(found), 0))[None]


def _rows(forwards: Sequence[Forward]) -> list[_Row]:
    return [_Row(f, n) for f in forwards for n in range(len(f.input_ids))]


def _in_order(rows: list[_Row], prompts: Sequence[Ids], responses: Sequence[Ids]) -> list[_Row]:
    """The rows in the order of the samples, also where the loss sorts them; as they are where it holds others."""
    held = {tuple(r.ids()[r.real() > 0].tolist()): r for r in rows}
    wanted = [(*p, *r) for p, r in zip(prompts, responses, strict=True)]
    return [held[w] for w in wanted] if len(rows) == len(wanted) and set(wanted) == held.keys() else rows


def derived(seam: Callable[..., Any]) -> bool:
    """Whether a seam was made out of `loss`, and so tells only what its last forwards were."""
    return isinstance(getattr(seam, "__self__", None), _Lost)


class OtherTokensError(Exception):
    """The reference was given other ids than the policy."""


def _stacked(parts: Sequence[Tensor], fill: float) -> Tensor:
    width = max(p.shape[1] for p in parts)
    return torch.cat([torch.nn.functional.pad(p, (0, width - p.shape[1]), value=fill) for p in parts])


def _loss_of(seams: dict[str, Callable[..., Any]], adapter: Adapter) -> Callable[..., Tensor]:
    def loss(prompts: Sequence[Prompt], responses: Sequence[Ids], advantages: Tensor) -> Tensor:
        batch = batch_of(seams["mask"]([seams["render"](p) for p in prompts], responses))
        ids, real, _ = batch
        new = seams["logprobs"](ids, real)
        with torch.no_grad():
            old = seams["old_logprobs"](ids, real) if "old_logprobs" in seams else new.detach()
            ref = seams["reference_logprobs"](ids, real) if "reference_logprobs" in seams else new.detach()
        assert adapter.model is not None
        table = (
            adapter.model(input_ids=ids, attention_mask=real).logits.float().log_softmax(-1)[:, -new.shape[1] - 1 : -1]
        )
        entropy = -(table.exp() * table).sum(-1)
        mask = batch.mask[:, -new.shape[1] :]
        out: Tensor = seams["objective"](new, old, ref, advantages, mask, entropy)
        return out

    return loss


class PlainStep:
    """``zero_grad``, `backward`, ``optimizer.step()``, where the adapter has no `step` of its own."""

    def __init__(self, backward: Callable[..., Any], optimizer: torch.optim.Optimizer) -> None:
        self.backward, self.optimizer = backward, optimizer

    def __call__(self, prompts: Sequence[Prompt], responses: Sequence[Ids], advantages: Tensor) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        self.backward(prompts, responses, advantages)
        self.optimizer.step()
