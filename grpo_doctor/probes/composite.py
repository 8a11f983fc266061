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

from .craft import agrees, batch_of, device_of, flat_ids, pad_right, response_logprobs, special_ids, split_rows
from .generations import Call, recorded_generate, scripted_generate
from .intercept import Forward, language_model, logits_of, watched  # fmt: skip
from .push import beside, temperature_of
from .samples import Sample, located
from .seams import Adapter, Batch, Ids, NotFinite, Prompt, Unjudged, Unseen
from .trials import spread
from .updates import given_by_updates, maximises, turned, updates


def completed(adapter: Adapter) -> dict[str, Callable[..., Any]]:
    """The adapter's seams with those that follow from them.

    Of a trainer whose optimizer maximises, the loss and its gradient come with the other sign, as probes know them.
    """
    seams: dict[str, Callable[..., Any]] = dict(adapter.seams)
    seams |= given_by_updates(seams, adapter)
    rolls = "rollout" in seams and adapter.model is not None
    if rolls:
        seams["rollout"] = rolled = Rolled(adapter)
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


class Remembering:
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


class Trajectory(NamedTuple):
    """What a rollout in turns returns for one prompt."""

    ids: Ids
    generated: list[bool]
    """Which of the ids the policy generated."""
    elsewhere: int
    """How many turns were generated after other ids than the prompt and what stands before them."""
    endless: int
    """How many turns stand there without the end token with which they were generated."""


class Rolled:
    """The adapter's `rollout`, and the fine seams that follow from it."""

    def __init__(self, adapter: Adapter) -> None:
        self.adapter, self.rollout = adapter, adapter.seams["rollout"]
        self.special = special_ids(adapter.tokenizer)
        self.prompts: dict[tuple[int, ...], Prompt] = {}
        self.rows: dict[str, Ids] = {}
        """What was rendered before: a whole rollout is dear."""

    def __call__(self, prompts: Sequence[Prompt]) -> Any:
        return self.rollout(prompts)

    def _scripted(self, responses: Sequence[Ids]) -> Any:
        return scripted_generate(self.adapter.model, responses, self.special.pad, self.special.eos)

    def _asked(self, rows: Sequence[Ids]) -> list[Prompt]:
        if any(tuple(row) not in self.prompts for row in rows):
            raise Unjudged("rollout takes only the adapter's own prompts")
        return [self.prompts[tuple(row)] for row in rows]

    def render(self, prompt: Prompt) -> Ids:
        """What `rollout` gives to generate for this prompt."""
        if (known := self.rows.get(repr(prompt))) is not None:
            return known
        end = self.special.eos if self.special.eos is not None else self.special.pad
        with self._scripted([[end]]) as calls:
            self.rollout([prompt])
        if not calls:
            raise Unseen(NEVER)
        ids = self.rows[repr(prompt)] = _attended(calls[0], 0)
        self.prompts[tuple(ids)] = prompt
        return ids

    def extract(self, tokens: Tensor, input_ids: Tensor, attention_mask: Tensor) -> Any:
        """What `rollout` returns when generate answers with the right part of these tokens.

        Where it speaks in turns, a row that holds what was generated, with or without what was said in between, counts
        as the canary.
        """
        rows = [r[m > 0].tolist() for r, m in zip(input_ids, attention_mask, strict=True)]
        prompts = self._asked(rows)
        answers = [r.tolist() for r in tokens[:, input_ids.shape[1] :]]
        with self._scripted(answers) as calls:
            found = self.rollout(prompts)
        if not calls:
            raise Unseen(NEVER)
        turns = _turns(calls, rows)
        if all(len(t) < 2 for t in turns):
            return found
        spoken = split_rows(found, [len(a) for a in answers])
        return [
            answer if any(agrees(said, c, self.adapter.tokenizer) for c in _candidates(row, turn)) else said
            for said, answer, row, turn in zip(spoken, answers, rows, turns, strict=True)
        ]

    def trajectories(self, prompts: Sequence[Prompt], answers: Sequence[Ids]) -> list[Trajectory]:
        """What `rollout` returns for these answers, served in order. Raises `Unjudged` where there is one turn, or what
        was generated cannot be told."""
        rows = [self.render(p) for p in prompts]
        with self._scripted(answers) as calls:
            found = self.rollout(prompts)
        turns = _turns(calls, rows)
        if all(len(turn) < 2 for turn in turns):
            raise Unjudged("rollout makes one turn")
        out = []
        for said, turn, row in zip(split_rows(found, [1] * len(prompts)), turns, rows, strict=True):
            ids = None if isinstance(said, str) else flat_ids(said)
            places = None if ids is None else _places(ids, turn, len(row), self.special.eos)
            if ids is None or places is None:
                raise Unjudged("rollout returns no ids in which each turn stands as it was generated")
            own = {n for place in places for n in place}
            elsewhere = sum(given != [*row, *ids[: at.start]] for at, (given, _) in zip(places, turn, strict=True))
            endless = sum(len(at) < len(answer) for at, (_, answer) in zip(places, turn, strict=True))
            out.append(Trajectory(ids, [n in own for n in range(len(ids))], elsewhere, endless))
        return out

    def sample(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """The tokens that the first turn of `rollout` generates for these prompts."""
        rows = [r[m > 0].tolist() for r, m in zip(input_ids, attention_mask, strict=True)]
        prompts = self._asked(rows)
        called = watched(self.adapter.model)
        with recorded_generate(self.adapter.model, self.special.pad) as calls, called as forwards_seen:
            found = self.rollout(prompts)
        if not calls and not forwards_seen:
            raise Unseen(NEVER)
        if calls:
            first = [turn[0][1] if turn else None for turn in _turns(calls, rows)]
        else:
            first = [None if isinstance(r, str) else flat_ids(r) for r in split_rows(found, [1] * len(rows))]
        said = [r for r in first if r]
        if len(said) != len(rows):
            raise Unjudged("what rollout generates cannot be told row by row")
        return torch.cat([input_ids, pad_right(said, self.special.pad, input_ids.device)], 1)


NEVER = "rollout makes no use of the adapter's model that a probe can see: no generate, no forward"


def _attended(call: Call, row: int) -> Ids:
    return [int(i) for i, real in zip(call.input_ids[row], call.attention_mask[row], strict=True) if real]


def _turns(calls: Sequence[Call], rows: Sequence[Ids]) -> list[list[tuple[Ids, Ids]]]:
    """For each prompt, what generation was given and what it answered, turn by turn."""
    found: list[list[tuple[Ids, Ids]]] = [[] for _ in rows]
    for call in calls:
        taken: set[int] = set()
        for n, answer in enumerate(call.served):
            given = _attended(call, n)
            ends = [k for k, row in enumerate(rows) if list(row) in (given[: len(row)], given[-len(row) :])]
            fits = [k for k in ends if k not in taken]
            if fits:
                # the same prompt may stand there twice, and only go on where it was
                best = max(fits, key=lambda k: (_said(found[k], given), -len(found[k]), -k))
                taken.add(best)
                found[best].append((given, answer))
    return found


def _said(turns: Sequence[tuple[Ids, Ids]], given: Ids) -> bool:
    """Whether what generation is given begins as what it answered the turn before."""
    if not turns:
        return False
    before = [*turns[-1][0], *turns[-1][1]]
    return given[: len(before)] == before


def _candidates(row: Ids, turns: Sequence[tuple[Ids, Ids]]) -> list[Ids]:
    """What a rollout may return of several turns: all of it, what was generated, or the last answer."""
    given, last = turns[-1]
    return [[*given[len(row) :], *last], [i for _, answer in turns for i in answer], last]


def _places(said: Ids, turns: Sequence[tuple[Ids, Ids]], prompt: int, end: int | None) -> list[range] | None:
    """Where each answer stands, one after the other, with its end token or without it; None where one is not there.

    Where what generation was given ends, its answer begins, though the environment may have said the same before.
    """
    places: list[range] = []
    at = 0
    for given, answer in turns:
        words = answer[:-1] if len(answer) > 1 and answer[-1] == end else answer
        tried = [len(given) - prompt, *range(at, len(said) - len(words) + 1)]
        n = next((n for n in tried if n >= at and said[n : n + len(words)] == words), None)
        if n is None:
            return None
        at = n + (len(answer) if said[n : n + len(answer)] == answer else len(words))
        places.append(range(n, at))
    return places


class Lost:
    """The adapter's `loss`, and the fine seams that follow from it."""

    def __init__(self, adapter: Adapter, render: Remembering, loss: Callable[..., Tensor]) -> None:
        self.adapter, self.render, self.loss = adapter, render, loss
        self.samples: list[Sample] = []
        self.beside: list[Forward] = []
        self.prompts: list[Prompt] = []
        self.responses: list[Ids] = []
        self.temperature = 1.0

    def mask(self, prompts: Sequence[Ids], responses: Sequence[Ids]) -> Batch:
        """The batch that the loss puts through the policy, one forward or several, and where its gradient is.

        A token is trained where an advantage of either sign has a gradient: where the ratio is off 1, a clip may stop
        one of them.
        """
        self.prompts, self.responses = self.render.back(prompts), [list(r) for r in responses]
        # no advantage is the mean of the others: whitening must leave none without a gradient
        advantages = 1 + torch.arange(len(prompts), device=device_of(self.adapter.model)) ** 2 / 4
        try:
            self.samples = _in_order(self._forwards(advantages), prompts, responses)
            marked = [s.trained() for s in self.samples]
            if not all(s.all_trained() for s in self.samples):
                others = _in_order(self._forwards(-advantages), prompts, responses)
                marked = [_either(m, o.trained()) for m, o in zip(marked, others, strict=True)]
        except NoGradientError:
            self.samples = _in_order(self._forwards(-advantages), prompts, responses)
            marked = [s.trained() for s in self.samples]
        ids, real = zip(*((s.ids(), s.real()) for s in self.samples), strict=True)
        pad = special_ids(self.adapter.tokenizer).pad
        return batch_of((_stacked(ids, pad), _stacked(real, 0), _stacked(marked, 0)))

    def _forwards(self, advantages: Tensor) -> list[Forward]:
        """The policy's forwards of a loss at these advantages, with their gradients; those without stand beside."""
        with watched(self.adapter.model, self.adapter.reference) as seen:
            value = self.loss(self.prompts, self.responses, advantages)
            if value.requires_grad:
                torch.autograd.backward(value)
        policy = [f for f in seen if f.logits.requires_grad]
        if not policy:
            raise Unseen("loss makes no forward of the adapter's model whose ids and logits can be seen")
        if not any(f.logits.grad is not None and bool(f.logits.grad.any()) for f in policy):
            raise NoGradientError("the loss has no gradient on the logits of these samples; see STL004")
        if any(f.logits.grad is not None and not bool(f.logits.grad.isfinite().all()) for f in policy):
            raise NotFinite("the gradient of the loss is not finite: it divides by a deviation or a count of 0")
        self.beside = [f for f in seen if not f.logits.requires_grad]
        return policy

    def logprobs(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """From the logits of the last loss, for the batch that `mask` returned."""
        return _stacked([s.logprobs(self.temperature) for s in self.samples], 0.0)

    def reference_logprobs(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """The same from the forwards of the reference.

        Where one model stands for both (an adapter that is switched off), its forwards without gradient may be the
        old policy's as well: those count that are farthest from the policy.
        """
        other = self.adapter.reference
        own = [f for f in self.beside if other is not None and f.module is language_model(other)] or self.beside
        if not own:
            raise Unjudged("loss makes no forward of the reference")
        return _stacked(self._farthest(own), 0.0)

    def _farthest(self, forwards: Sequence[Forward]) -> list[Tensor]:
        found = []
        for sample, same in zip(self.samples, _held(self.samples, forwards), strict=True):
            if not same:
                raise OtherTokensError
            mine = sample.logprobs()
            found.append(max((s.logprobs() for s in same), key=lambda o: float((o - mine).abs().max())))
        return found

    def beside_logprobs(self, role: str) -> dict[int, Tensor]:
        """The same from the forwards without gradient that stand for "old" or "reference": a table for each way to
        read them, by their place among those that hold a sample.

        Forwards of the adapter's own reference stand for it. Else the reference is what the gradient depends on at
        advantages of zero, the old policy what it depends on only with advantages; a KL term that is weighted by the
        ratio makes it depend on both, and then either may be the reference.
        """
        chosen = {id(self.beside[n]) for n in self._of_role(role) if n < len(self.beside)}
        ways = zip(*_held(self.samples, self.beside), strict=False)
        return {
            n: _stacked([place.logprobs(self.temperature) for place in places], 0.0)
            for n, places in enumerate(ways)
            if all(id(place.forward) in chosen for place in places)
        }

    def _of_role(self, role: str) -> list[int]:
        none = torch.zeros(len(self.prompts), device=device_of(self.adapter.model))
        some = spread(len(self.prompts), self.adapter.model) + 0.25  # of both signs: a clip may stop one of them
        models = [self.adapter.model, self.adapter.reference]
        at_zero, otherwise = (beside(self.loss, models, self.prompts, self.responses, a) for a in (none, some))
        own = {n for n, forward in enumerate(at_zero) if forward.acts and self._is_reference(forward.module)}
        if role == "reference":
            return sorted(own) or [n for n, forward in enumerate(at_zero) if forward.acts]
        pairs = enumerate(zip(at_zero, otherwise, strict=True))
        return [n for n, (zero, other) in pairs if other.acts and n not in own and (own or not zero.acts)]

    def _is_reference(self, module: Any) -> bool:
        other, policy = self.adapter.reference, self.adapter.model
        return other is not None and module is language_model(other) and module is not language_model(policy)


def _held(samples: Sequence[Sample], others: Sequence[Forward]) -> list[list[Sample]]:
    """For each sample, where other forwards hold the same tokens."""
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


def _tokens(sample: Sample) -> Ids:
    """The prompt as the forward holds it, and the response."""
    return [*sample.forward.input_ids[sample.row, sample.start : sample.said].tolist(), *sample.response]


def _either(one: Tensor, other: Tensor) -> Tensor:
    """What is trained in one pass or in the other; where their rows differ, in the first."""
    return one | other if one.shape == other.shape else one


def _in_order(forwards: Sequence[Forward], prompts: Sequence[Ids], responses: Sequence[Ids]) -> list[Sample]:
    """The samples in the order of the prompts; a row that is no sample's own stands for one that is not found.

    Where all samples are packed into one row, that row does.
    """
    found = located(forwards, prompts, responses)
    held = {(id(s.forward), s.row) for s in found if s is not None}
    width = forwards[0].input_ids.shape[1]
    packed = sum(len(f.input_ids) for f in forwards) == 1 < len(prompts) and width > sum(map(len, prompts))
    left = [(f, n) for f in forwards for n in range(len(f.input_ids)) if (id(f), n) not in held]
    out = []
    for sample in found:
        if sample is None and not left and not packed:
            raise Unjudged("the forwards of the loss hold fewer rows than there are samples")
        out.append(sample if sample is not None else _row(*(left.pop(0) if left else (forwards[0], 0))))
    return out


def _row(forward: Forward, row: int) -> Sample:
    """A whole row in which no response is found."""
    width = forward.input_ids.shape[1]
    mask = forward.attention_mask
    start = 0 if mask is None else int(mask[row].long().argmax())
    return Sample(forward, row, start, width, [], 0, width)


def derived(seam: Callable[..., Any]) -> bool:
    """Whether a seam was made out of `loss`, and so tells only what its last forwards were."""
    return isinstance(getattr(seam, "__self__", None), Lost)


def of_old(seam: Callable[..., Any]) -> Tensor:
    """(N, T-1) what the last loss of a derived seam's trainer took for the old policy."""
    found: dict[int, Tensor] = seam.__self__.beside_logprobs("old")  # type: ignore[attr-defined]
    if not found:
        raise Unjudged("no forward without gradient acts on the loss as the old policy does: its ratio is 1")
    return next(iter(found.values()))


def of_reference(seam: Callable[..., Any]) -> dict[int, Tensor]:
    """(N, T-1) what the last loss of a derived seam's trainer may have taken for the reference; mostly one table."""
    found: dict[int, Tensor] = seam.__self__.beside_logprobs("reference")  # type: ignore[attr-defined]
    if not found:
        raise Unjudged("no forward without gradient acts on the loss as a reference does")
    return found


def scored(seam: Callable[..., Any], prompts: Sequence[Ids], responses: Sequence[Ids]) -> list[Tensor]:
    """Log-probabilities that a derived seam's loss gives to these responses, at the temperature of its gradient."""
    lost: Lost = seam.__self__  # type: ignore[attr-defined]
    batch = lost.mask(prompts, responses)
    assert lost.adapter.model is not None
    lost.temperature = temperature_of(lost.loss, lost.adapter.model, lost.prompts, lost.responses) or 1.0
    try:
        return response_logprobs(lost.logprobs, batch, responses, prompts)
    finally:
        lost.temperature = 1.0


class NoGradientError(Unjudged):
    """The loss has no gradient at the advantages that were tried."""


class OtherTokensError(Exception):
    """The reference was given other ids than the policy."""


def _stacked(parts: Sequence[Tensor], fill: float) -> Tensor:
    """(N, T) of N rows, padded on the right."""
    width = max(len(p) for p in parts)
    return torch.stack([torch.nn.functional.pad(p, (0, width - len(p)), value=fill) for p in parts])


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
