"""Derives entry points from a trainer's `loss`, by recording the model while the loss runs.

The ids of the forward pass are the batch. The positions at which the gradient of the loss with respect to the
logits is not zero are the mask, and the logits give the log-probabilities.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .crafted_inputs import batch_of, complete, device_of, plain_ids, response_logprobs, special_ids
from .entry_points import Adapter, Batch, Ids, NotApplicable, NotFinite, NotObserved, Prompt, Unjudged
from .from_rollout import Remembering
from .gradient_effect import LOUD, in_ratio, no_grad_passes, temperature_of
from .intercept import Forward, back_to_logits, language_model, watched
from .known_forwards import fingerprint
from .loss_trials import spread
from .sample_layout import Sample, located


class Lost:
    """The adapter's `loss`, and the fine-grained entry points derived from it."""

    def __init__(self, adapter: Adapter, render: Remembering, loss: Callable[..., Tensor]) -> None:
        self.adapter, self.render, self.loss = adapter, render, loss
        self.samples: list[Sample] = []
        self.beside: list[Forward] = []
        self.prompts: list[Prompt] = []
        self.responses: list[Ids] = []
        self.temperature = 1.0
        self._roles: dict[str, dict[str, list[int]]] = {}
        """Cached results of `of_role`, by samples and weights."""

    def mask(self, prompts: Sequence[Ids], responses: Sequence[Ids]) -> Batch:
        """Return the batch of the loss, from one or more forward passes, and the positions with a gradient.

        A single sample is passed twice, because whitening would make a single advantage 0.
        """
        try:
            return self._batch(prompts, responses)
        except Unjudged:
            if len(prompts) != 1:
                raise
        batch = self._batch([*prompts] * 2, [*responses] * 2)
        self.samples = self.samples[:1]
        return batch_of([part[:1] for part in batch])

    def _batch(self, prompts: Sequence[Ids], responses: Sequence[Ids]) -> Batch:
        """Find the trained tokens: tokens with a gradient at a positive, a negative or a large advantage. Several
        advantages are tried, because clipping may remove some gradients if the ratio is not 1.
        """
        self.prompts, self.responses = self.render.back(prompts), [list(r) for r in responses]
        # no advantage equals the mean of the others, so every token keeps a gradient after whitening
        advantages = 1 + torch.arange(len(prompts), device=device_of(self.adapter.model)) ** 2 / 4
        try:
            self.samples = _in_order(self._forwards(advantages), prompts, responses)
        except NoGradientError:
            self.samples = _in_order(self._forwards(-advantages), prompts, responses)
        marked = [s.trained() for s in self.samples]
        for factor in (-1.0, LOUD, -LOUD):  # large advantages, in case a critic's advantages hide the given advantages
            if all(s.holds(m) for s, m in zip(self.samples, marked, strict=True)):
                break
            try:
                others = _in_order(self._forwards(factor * advantages), prompts, responses)
            except (NoGradientError, NotFinite):
                continue
            marked = [_either(m, o.trained()) for m, o in zip(marked, others, strict=True)]
        ids, real = zip(*((s.ids(), s.real()) for s in self.samples), strict=True)
        pad = special_ids(self.adapter.tokenizer).pad
        return batch_of((_stacked(ids, pad), _stacked(real, 0), _stacked(marked, 0)))

    def _forwards(self, advantages: Tensor) -> list[Forward]:
        """Return the policy's forward passes of a loss at these advantages, with their gradients, and the passes
        without a gradient."""
        with watched(self.adapter.model, self.adapter.reference) as seen:
            back_to_logits(self.loss(self.prompts, self.responses, advantages), seen)
        policy = [f for f in seen if f.logits.requires_grad]
        if not policy:
            raise NotObserved("loss makes no forward pass of the adapter's model with visible ids and logits")
        if not any(f.logits.grad is not None and bool(f.logits.grad.any()) for f in policy):
            raise NoGradientError("the loss has no gradient on the logits of these samples; see STL004")
        if any(f.logits.grad is not None and not bool(f.logits.grad.isfinite().all()) for f in policy):
            raise NotFinite("the gradient of the loss is not finite: it divides by a deviation or a count of 0")
        self.beside = [f for f in seen if f.logits.grad is None]
        return [f for f in policy if f.logits.grad is not None]

    def logprobs(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Return log-probabilities from the logits of the last loss, for the batch that `mask` returned."""
        return _stacked([s.logprobs(self.temperature) for s in self.samples], 0.0)

    def reference_logprobs(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Return the log-probabilities from the forward passes of the reference.

        If the reference is the policy with its adapter switched off, a pass without gradient may belong to the old
        policy or to a sampler instead. Of the passes that act like a reference, the pass that differs most from the
        policy is used.
        """
        other = self.adapter.reference
        own = [f for f in self.beside if other is not None and f.module is language_model(other)]
        own = own or [self.beside[n] for n in self.of_role("reference") if n < len(self.beside)]
        if not own:
            raise NotApplicable("loss makes no forward pass of the reference")
        return _stacked(self._farthest(own), 0.0)

    def _farthest(self, forwards: Sequence[Forward]) -> list[Tensor]:
        found = []
        for sample, same in zip(self.samples, _same_tokens(self.samples, forwards), strict=True):
            if not same:
                raise OtherTokensError
            mine = sample.logprobs()
            found.append(max((_aligned(s, sample) for s in same), key=lambda o: float((o - mine).abs().max())))
        return found

    def no_grad_logprobs(self, role: str) -> dict[int, Tensor]:
        """Return the log-probabilities from the passes without gradient for the role "old" or "reference". If several
        passes fit the role, each gives one table, keyed by the position of the first sample's pass.

        If the adapter has a reference, the forward passes of that reference are used. Without a reference, the roles
        are inferred. At zero advantages, the gradient depends only on the reference; at other advantages, it depends on
        the old policy as well. If the KL term is weighted by the ratio, the gradient at zero advantages depends on both
        passes, and each of them may be the reference.
        """
        number = {id(self.beside[n]): n for n in self.of_role(role) if n < len(self.beside)}
        held = _same_tokens(self.samples, self.beside)  # passes of a sampling loop contain only part of the text
        ways = zip(*([p for p in places if id(p.forward) in number] for places in held), strict=False)
        return {
            number[id(places[0].forward)]: _stacked(
                [_aligned(p, s, self.temperature) for p, s in zip(places, self.samples, strict=True)], 0.0
            )
            for places in ways
        }

    def of_role(self, role: str) -> list[int]:
        """Return the positions of the passes without gradient that have the role "old" or "reference"."""
        assert self.adapter.model is not None
        # a reference with the policy's weights may act as the old policy
        state = repr((self.prompts, self.responses, fingerprint([*self.adapter.model.parameters()])))
        if state not in self._roles:
            self._roles[state] = self._found_roles()
        return self._roles[state][role]

    def _found_roles(self) -> dict[str, list[int]]:
        none = torch.zeros(len(self.prompts), device=device_of(self.adapter.model))
        models = [self.adapter.model, self.adapter.reference]
        at_zero = no_grad_passes(self.loss, models, self.prompts, self.responses, none)
        own = {n for n, forward in enumerate(at_zero) if forward.acts and self._is_reference(forward.module)}
        always = {n for n, forward in enumerate(at_zero) if forward.acts}
        some = spread(len(self.prompts), self.adapter.model) + 0.25  # both signs, because clipping may stop one sign
        otherwise = no_grad_passes(self.loss, models, self.prompts, self.responses, some, own or always)
        if not always:  # the trainer skipped a batch with equal advantages
            own = {n for n, forward in enumerate(otherwise) if forward.acts and self._is_reference(forward.module)}
        old = [n for n, other in enumerate(otherwise) if other.acts and n not in own and (own or n not in always)]
        return {"reference": sorted(own or always), "old": old}

    def _is_reference(self, module: Any) -> bool:
        other, policy = self.adapter.reference, self.adapter.model
        return other is not None and module is language_model(other) and module is not language_model(policy)


def _same_tokens(samples: Sequence[Sample], others: Sequence[Forward]) -> list[list[Sample]]:
    """Return, for each sample, the same sample in each other pass that contains the same tokens."""
    tokens = [_tokens(s) for s in samples]
    found: list[list[Sample]] = [[] for _ in samples]
    for forward in others:
        known = [n for n, s in enumerate(samples) if s.response]
        prompts = [tokens[n][: len(tokens[n]) - len(samples[n].response)] for n in known]
        places = located([forward], prompts, [samples[n].response for n in known])
        for n, place in zip(known, places, strict=True):
            if place is not None and _tokens(place) == tokens[n]:
                found[n].append(place)
        for n in set(range(len(samples))) - set(known):
            rows = forward.input_ids.tolist()
            found[n] += [_row(forward, row) for row, ids in enumerate(rows) if ids == samples[n].ids().tolist()]
    return found


def _aligned(other: Sample, own: Sample, temperature: float = 1.0) -> Tensor:
    """Return the log-probabilities (T-1,) from another pass, aligned with the positions of this pass regardless of
    padding."""
    values = other.logprobs(temperature)
    out = values.new_zeros(len(own.ids()) - 1)
    shift = (own.start - own.low) - (other.start - other.low)
    first, end = max(0, -shift), min(len(values), len(out) - shift)
    out[first + shift : end + shift] = values[first:end]
    return out


def _tokens(sample: Sample) -> Ids:
    """Return the prompt as it occurs in the pass, and the response."""
    return [*sample.forward.input_ids[sample.row, sample.start : sample.said].tolist(), *sample.response]


def _either(one: Tensor, other: Tensor) -> Tensor:
    """Return the positions that are trained in at least one of two passes, or in the first pass if the rows differ."""
    return one | other if one.shape == other.shape else one


def _in_order(forwards: Sequence[Forward], prompts: Sequence[Ids], responses: Sequence[Ids]) -> list[Sample]:
    """Return the samples in the order of the prompts.

    A sample that is not found is assigned the free row that has the most tokens in common with it, or the row into
    which all samples are packed.
    """
    found = located(forwards, prompts, responses)
    held = {(id(s.forward), s.row) for s in found if s is not None}
    width = forwards[0].input_ids.shape[1]
    packed = sum(len(f.input_ids) for f in forwards) == 1 < len(prompts) and width > sum(map(len, prompts))
    left = [(f, n) for f in forwards for n in range(len(f.input_ids)) if (id(f), n) not in held]
    out = list(found)
    while lacking := [n for n, sample in enumerate(out) if sample is None]:
        if not left and not packed:
            raise Unjudged("the forward passes of the loss contain fewer rows than there are samples")
        pairs = [(_shared(*row, [*prompts[n], *responses[n]]), n, row) for n in lacking for row in left]
        _, n, row = max(pairs, key=lambda pair: pair[0], default=(0, lacking[0], (forwards[0], 0)))
        out[n] = _row(*row)
        left = [other for other in left if other is not row]
    return [sample for sample in out if sample is not None]


def _shared(forward: Forward, row: int, sample: Ids) -> int:
    """Return the length of the longest beginning of a sample that a row contains."""
    ids = forward.input_ids[row].tolist()
    pairs = (zip(ids[begin:], sample, strict=False) for begin in range(len(ids)))
    return max(sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], each)) for each in pairs)


def _row(forward: Forward, row: int) -> Sample:
    """Return a whole row as a sample, for a row in which no response was found."""
    width = forward.input_ids.shape[1]
    mask = forward.attention_mask
    start = 0 if mask is None else int(mask[row].long().argmax())
    return Sample(forward, row, start, width, [], 0, width)


def derived(seam: Callable[..., Any]) -> bool:
    """Return whether an entry point was derived from `loss`. A derived entry point knows only the forward passes of the
    last loss."""
    return isinstance(getattr(seam, "__self__", None), Lost)


def of_old(seam: Callable[..., Any]) -> Tensor:
    """Return the old policy's log-probabilities (N, T-1) in the last loss."""
    found: dict[int, Tensor] = seam.__self__.no_grad_logprobs("old")  # type: ignore[attr-defined]
    if not found:
        raise NotApplicable("no forward pass without gradient acts on the loss like the old policy: its ratio is 1")
    return next(iter(found.values()))


def of_reference(seam: Callable[..., Any]) -> dict[int, Tensor]:
    """Return the tables (N, T-1) of possible reference log-probabilities in the last loss, by position; usually one
    table."""
    found: dict[int, Tensor] = seam.__self__.no_grad_logprobs("reference")  # type: ignore[attr-defined]
    if not found:
        raise NotApplicable("no forward pass without gradient acts on the loss like a reference")
    return found


def old_is_own(seam: Callable[..., Any]) -> bool:
    """Return whether the old policy of the last loss was scored by the policy's own module or by the adapter's
    reference. Another module is a copy, which follows the policy only when the trainer updates the copy."""
    lost: Lost = seam.__self__  # type: ignore[attr-defined]
    known = {language_model(m) for m in (lost.adapter.model, lost.adapter.reference) if m is not None}
    places = [n for n in lost.of_role("old") if n < len(lost.beside)]
    return bool(places) and all(lost.beside[n].module in known for n in places)


def is_old(seam: Callable[..., Any]) -> bool:
    """Return whether the reference of the last loss is really the old policy: it then affects the advantages' part of
    the gradient, which only a ratio can do."""
    lost: Lost = seam.__self__  # type: ignore[attr-defined]
    models = [lost.adapter.model, lost.adapter.reference]
    some = spread(len(lost.prompts), lost.adapter.model) + 0.25
    return any(in_ratio(lost.loss, models, lost.prompts, lost.responses, some, n) for n in lost.of_role("reference"))


def scored(seam: Callable[..., Any], prompts: Sequence[Ids], responses: Sequence[Ids]) -> list[Tensor]:
    """Return the log-probabilities of these responses from a derived loss, at the temperature shown by its gradient."""
    lost: Lost = seam.__self__  # type: ignore[attr-defined]
    assert lost.adapter.model is not None
    batch = lost.mask(prompts, responses)
    lost.temperature = temperature_of(lost.loss, lost.adapter.model, lost.prompts, lost.responses) or 1.0
    try:
        return response_logprobs(lost.logprobs, batch, responses, prompts)
    finally:
        lost.temperature = 1.0


def loss_temperature(seam: Callable[..., Any], prompts: Sequence[Ids]) -> float | None:
    """Return the temperature at which a derived loss scores, or None if its gradient does not fit a single
    temperature."""
    lost: Lost = seam.__self__  # type: ignore[attr-defined]
    adapter = lost.adapter
    assert adapter.model is not None
    words, end = plain_ids(adapter.tokenizer, adapter.model, prompts), special_ids(adapter.tokenizer).eos
    some = prompts[:4]
    return temperature_of(lost.loss, adapter.model, lost.render.back(some), complete(words, [4] * len(some), end))


class NoGradientError(Unjudged):
    """Raised if the loss has no gradient at the tried advantages."""


class OtherTokensError(Exception):
    """Raised if the reference received other ids than the policy."""


def _stacked(parts: Sequence[Tensor], fill: float) -> Tensor:
    """Stack N rows into a tensor (N, T), padded on the right."""
    width = max(len(p) for p in parts)
    return torch.stack([torch.nn.functional.pad(p, (0, width - len(p)), value=fill) for p in parts])
