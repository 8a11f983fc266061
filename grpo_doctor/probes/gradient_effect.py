"""Measures the direction in which a loss moves the logits of each sample's tokens, from the part of the gradient that
is due to the advantages.

The gradient at zero advantages is subtracted, so that entropy and KL terms have no effect on the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from .crafted_inputs import complete, plain_ids, rendered, special_ids
from .entry_points import Ids, Prompt, Unjudged
from .forced_draws import OLDER
from .generations import scripted_sampling
from .intercept import Forward, back_to_logits, ending_at_logits, forwards, kept_in, language_model, watched
from .loss_trials import spread, torch_of
from .model_modes import fixed_chance, without_dropout
from .sample_layout import Sample, located

SIGNS = (1.0, 1.0, -1.0, -1.0)
"""Centred advantages of four samples, chosen so that every shift, reversal or interleaving of the rows changes them."""

LENGTHS, LONGER = (3, 5, 2, 4), (5, 7, 4, 6)
"""Response lengths of four samples, in two batches."""

MIXES = 1
"""A random state with which shuffling four samples moves some samples to the position of a sample with the other
sign."""

LOUD = 1e6
"""Factor by which advantages are multiplied if the loss adds other advantages, such as a critic's, that would hide
their effect."""


_KNOWN: WeakKeyDictionary[Callable[..., Tensor], dict[Any, Any]] = WeakKeyDictionary()
"""Constant properties of each loss: its `structure` for some samples, and whether its gradient is linear in the
advantages."""


class GradientEffect(NamedTuple):
    """The effect of the policy gradient on one sample."""

    towards: Tensor
    """(R,): how much a step raises the logit of each response token."""
    trained: Tensor
    """(R,) bool: whether the advantage affects the logits that predict the token."""
    aimed: Tensor
    """(R,) bool: whether the token's own logit changes most among all logits, up or down."""
    outside: int
    """Number of positions outside the response whose logits change."""
    weight: Tensor
    """(R,): weight of each token's log-probability in the gradient, or 0 if the token is almost certain."""


def four(
    render: Callable[[Prompt], Any],
    tokenizer: Any,
    model: Any,
    prompts: Sequence[Prompt] | None,
    lengths: Sequence[int] = LENGTHS,
) -> tuple[list[Prompt], list[Ids]]:
    """Return four prompts and different `complete` responses of these lengths. The first prompt is the shortest, and
    the last is the longest; the others are unsorted."""
    pairs = rendered(render, prompts)
    words = plain_ids(tokenizer, model, [ids for _, ids in pairs])
    responses = complete(words, lengths, special_ids(tokenizer).eos)
    last = len(pairs) - 1
    return [pairs[n][0] for n in (0, last - 1 or 1, last // 3, last)], responses


def pushes(
    loss: Callable[..., Tensor],
    model: torch.nn.Module,
    prompts: Sequence[Prompt],
    responses: Sequence[Ids],
    *,
    signs: Sequence[float] = SIGNS,
    log_ratios: Sequence[float] | None = None,
    temperature: float = 1.0,
    sampler_alone: bool = False,
) -> list[GradientEffect]:
    """Return one `GradientEffect` per sample.

    Args:
        signs: the advantages.
        log_ratios: difference between the policy's and the old log-probability of each sample's first token. The
            log-ratios have an effect only if the loss takes old log-probabilities from a forward pass without gradient.
        sampler_alone: lower only the log-probabilities that the sampler of the loss reports.
    """
    some = torch_of(signs, model)

    def taken(advantages: Tensor) -> _Gradients:
        with _older(model, responses, log_ratios, temperature, places, sampler_alone):
            return _gradients(loss, model, prompts, responses, advantages)

    if not any(log_ratios or ()):
        log_ratios = None
    places = structure(loss, [model], prompts, responses).detached if log_ratios is not None else frozenset()
    with without_dropout(model):
        whole, parts, share = _owed(taken, some, _KNOWN.setdefault(loss, {}))
    return _pushes(parts, responses, max(share * _largest(parts), 1e-6 * whole), temperature)


_Gradients = list[tuple[Forward, Tensor]]


def _owed(
    taken: Callable[[Tensor], _Gradients], advantages: Tensor, known: dict[Any, Any]
) -> tuple[float, _Gradients, float]:
    """Return the largest gradient of the logits, the part of the gradients due to the advantages, and the share of the
    maximum below which a gradient counts as 0.

    The part that is due to the advantages is the difference from the gradients without advantages. If the loss adds a
    critic's advantages, larger advantages make the critic's own advantages negligible. If the sum is whitened, or if a
    batch of equal advantages is skipped, the difference cannot be formed. The effect of a penalty is then assumed to be
    small.
    """
    without = taken(0 * advantages)
    if known.get("linear") and _shapes(louder := taken(LOUD * advantages)) == _shapes(without):
        return _largest(without), [(f, g / LOUD) for f, g in _less(louder, without)], 1e-5
    given = taken(advantages)
    if not given:
        raise Unjudged("loss made no forward pass of the model with a gradient on its logits")
    if _shapes(given) != _shapes(without):
        return _largest(given), given, 0.03  # zero-variance batches are skipped
    parts = _less(given, without)
    alone = _largest(without) / max(_largest(parts), 1e-12)
    if alone >= 1e-3 and (known.get("linear") is None or alone >= 0.1):
        louder = taken(LOUD * advantages)
        usable = _shapes(given) == _shapes(louder) and math.isfinite(_largest(louder))
        known["linear"] = usable and _largest(louder) > LOUD / 3 * _largest(parts)
        if known["linear"]:
            return _largest(given), [(f, g / LOUD) for f, g in _less(louder, without)], 1e-5
        if usable and alone >= 0.1:
            return _largest(louder), louder, 0.03
    return _largest(given), parts, 1e-5


def _shapes(gradients: _Gradients) -> list[torch.Size]:
    return [g.shape for _, g in gradients]


def _less(one: _Gradients, other: _Gradients) -> _Gradients:
    return [(f, a - b) for (f, a), (_, b) in zip(one, other, strict=True)]


def _largest(gradients: _Gradients) -> float:
    return max(float(g.abs().max()) for _, g in gradients)


class Structure(NamedTuple):
    """The way in which a loss uses the model."""

    detached: frozenset[int]
    """Positions, in the order of all passes, of the passes that are made with a gradient and then detached."""
    samples: bool
    """Whether the loss itself samples."""
    together: frozenset[int]
    """The samples that share a forward pass with the first sample; empty if no sample is found."""


def structure(
    loss: Callable[..., Tensor], models: Sequence[Any], prompts: Sequence[Prompt], responses: Sequence[Ids]
) -> Structure:
    """Return how a loss uses these models for these samples."""
    known, key = _KNOWN.setdefault(loss, {}), (*map(id, models), repr((prompts, responses)))
    if key not in known:
        some = spread(len(responses), models[0]) + 0.25  # both signs, because clipping may stop one sign
        fixed_chance()
        with without_dropout(models[0]), scripted_sampling() as sampling, watched(*models) as seen:
            back_to_logits(loss(prompts, responses, some), seen)
        left = {n for n, f in enumerate(seen) if f.logits.requires_grad and f.logits.grad is None}
        trained = [f for f in seen if f.logits.requires_grad]
        passes = [None if s is None else id(s.forward) for s in located(trained, [[]] * len(responses), responses)]
        same = frozenset(n for n, one in enumerate(passes) if one is not None and one == passes[0])
        known[key] = Structure(frozenset(left if len(left) < len(trained) else ()), bool(sampling.inputs), same)
    found: Structure = known[key]
    return found


class PassClassifier:
    """Classifies each forward pass of a loss by whether it belongs to the old policy or the reference.

    A pass belongs to the old policy or the reference if it is made without a gradient, or if its position is in
    `Structure.detached`.
    """

    def __init__(self, places: frozenset[int]) -> None:
        self.places, self.count = places, 0

    def __call__(self, forward: Forward) -> bool:
        self.count += 1
        return not forward.logits.requires_grad or self.count - 1 in self.places


class NoGradPass(NamedTuple):
    """A forward pass without gradient."""

    module: Any
    acts: bool
    """Whether the gradient on the policy's logits depends on the pass."""
    scores: bool
    """Whether the pass contains one of the samples and was not made by a sampler."""


def no_grad_passes(
    loss: Callable[..., Tensor],
    models: Sequence[Any],
    prompts: Sequence[Prompt],
    responses: Sequence[Ids],
    advantages: Tensor,
    known: Iterable[int] = (),
) -> list[NoGradPass]:
    """Return the passes without gradient, in order. A pass without gradient belongs to the old policy, belongs to the
    reference, or has no effect. The effect of the passes at the ``known`` positions is not measured."""
    samples, places = (prompts, responses, advantages), structure(loss, models, prompts, responses).detached
    with scripted_sampling() as sampling:
        before, others = _changed(loss, models, samples, (), places)
    least = max(1e-6 * max([float(g.abs().max()) for g in before], default=0.0), 1e-9)

    def acting(some: list[int]) -> set[int]:
        if len(some) != 2:  # two passes belong to the old policy and the reference, and both may have an effect
            after, _ = _changed(loss, models, samples, some, places) if some else (before, others)
            if len(after) == len(before) and all(
                a.shape == b.shape and float((a - b).abs().max()) <= least for a, b in zip(after, before, strict=True)
            ):
                return set()
        half = len(some) // 2
        return acting(some[:half]) | acting(some[half:]) if half else {*some}

    effective = acting([n for n in range(len(others)) if n not in known])
    out = []
    for n, other in enumerate(others):
        held = located([other], [[]] * len(responses), responses)
        scores = any(s is not None for s in held) and not sampling.made(other)
        out.append(NoGradPass(other.module, n in effective, scores))
    return out


def in_ratio(
    loss: Callable[..., Tensor],
    models: Sequence[Any],
    prompts: Sequence[Prompt],
    responses: Sequence[Ids],
    advantages: Tensor,
    place: int,
) -> bool:
    """Return whether the pass at this position affects the part of the gradient that is due to the advantages."""
    places = structure(loss, models, prompts, responses).detached

    def added(*changed: int) -> list[Tensor]:
        given, _ = _changed(loss, models, (prompts, responses, advantages), changed, places)
        without, _ = _changed(loss, models, (prompts, responses, 0 * advantages), changed, places)
        return [a - b for a, b in zip(given, without, strict=False)]

    pairs = list(zip(added(), added(place), strict=False))
    return any(float((one - other).abs().max()) > 1e-3 * float(one.abs().max()) for one, other in pairs)


def _changed(
    loss: Callable[..., Tensor],
    models: Sequence[Any],
    samples: tuple[Any, ...],
    changed: Sequence[int],
    places: frozenset[int],
) -> tuple[list[Tensor], list[Forward]]:
    """Return the gradients on the policy's logits after changing the logits of these passes without gradient. Also
    return the unmodified passes."""
    policy: list[Forward] = []
    others: list[Forward] = []
    apart = PassClassifier(places)

    def handle(forward: Forward) -> Tensor | None:
        if not apart(forward):
            forward.logits.retain_grad()
            policy.append(forward)
            return None
        others.append(forward)
        seed = len(others) if len(changed) > 1 else 1  # a loss may take the difference of two passes
        return forward.logits + _noise(forward, seed) if len(others) - 1 in changed else None

    fixed_chance()
    with without_dropout(models[0]), ending_at_logits(), forwards(models, handle):
        back_to_logits(loss(*samples), policy)
    return [f.logits.grad.float() for f in policy if f.logits.grad is not None], others


def _noise(forward: Forward, seed: int = 1) -> Tensor:
    return torch.randn(forward.logits.shape, generator=torch.Generator().manual_seed(seed)).to(forward.logits)


def reference_effect(
    loss: Callable[..., Tensor],
    model: torch.nn.Module,
    reference: torch.nn.Module | None,
    prompts: Sequence[Prompt],
    responses: Sequence[Ids],
) -> list[GradientEffect]:
    """Return the effect of the reference penalty on each sample, which is the effect of changing the reference's
    log-probabilities at zero advantages.

    The result is empty if there is no effect. If the reference is not a separate module, every pass without gradient
    counts as the reference's, because the old policy has no effect without advantages.
    """
    own = None if reference is None else language_model(reference)
    models = [model, reference]
    apart = PassClassifier(structure(loss, models, prompts, responses).detached)

    def other(forward: Forward) -> Tensor | None:
        away = not apart(forward) or (own is not None and forward.module is not own)
        return None if away else forward.logits + 0.3 * _noise(forward)

    none = torch_of([0.0] * len(responses), model)
    with without_dropout(model):
        before = _gradients(loss, model, prompts, responses, none)
        with forwards(models, other):
            after = _gradients(loss, model, prompts, responses, none)
    parts = [(f, first - second) for (f, first), (_, second) in zip(after, before, strict=False)]
    largest = max((float(g.abs().max()) for _, g in parts), default=0.0)
    return _pushes(parts, responses, 1e-4 * largest) if largest else []


def anchor_effect(
    loss: Callable[..., Tensor],
    model: torch.nn.Module,
    prompts: Sequence[Prompt],
    responses: Sequence[Ids],
    log_ratios: Sequence[float],
) -> list[float]:
    """Return how much more a step without advantages raises the logit of each sample's first token when its log-ratio
    is applied. Passes without gradient then lower the token's log-probability by the log-ratio. The result is empty if
    there is no effect."""
    none = torch_of([0.0] * len(responses), model)
    places = structure(loss, [model], prompts, responses).detached
    with without_dropout(model):
        before = _gradients(loss, model, prompts, responses, none)
        with _older(model, responses, log_ratios, 1.0, places):
            after = _gradients(loss, model, prompts, responses, none)
    if not before or [g.shape for _, g in before] != [g.shape for _, g in after]:
        return []
    parts = _less(after, before)
    if _largest(parts) <= 1e-6 * _largest(after):
        return []
    return [float(push.towards[0]) for push in _pushes(parts, responses, 1e-4 * _largest(parts))]


TOWARDS = (0.5, -0.5, 0.2, -0.2)
"""Log-ratio of the reference to the policy for a token of each of four samples."""


def pulls(objective: Callable[..., Tensor]) -> tuple[Tensor, Tensor]:
    """Return two tensors (4,). The first is how much a step on an `objective` without advantages raises one
    log-probability of each sample if the reference equals the policy. The second is the additional rise if the
    reference differs by `TOWARDS`."""
    mask = torch.tensor([[0.0, 1.0, 1.0]] * 4)

    def raised(away: Tensor) -> Tensor:
        new = torch.tensor([[-2.0, -1.5, -0.5]] * 4, requires_grad=True)
        reference = new.detach() + torch.nn.functional.pad(away[:, None], (1, 1))
        value = objective(new, new.detach(), reference, torch.zeros(4), mask, torch.ones(4, 3))
        found = torch.autograd.grad(value, new, allow_unused=True)[0] if value.requires_grad else None
        return torch.zeros(4) if found is None else -found[:, 1]

    same = raised(torch.zeros(4))
    return same, raised(torch.tensor(TOWARDS)) - same


def temperature_of(
    loss: Callable[..., Tensor], model: torch.nn.Module, prompts: Sequence[Prompt], responses: Sequence[Ids]
) -> float | None:
    """Return the temperature at which a loss scores, or None if no single temperature explains the gradient of the
    loss.

    The policy gradient at tokens that were not sampled is proportional to their probability.
    """
    with without_dropout(model):
        signs = torch_of([1.0, -1.0] * len(responses), model)[: len(responses)]
        given = _gradients(loss, model, prompts, responses, signs)
        without = _gradients(loss, model, prompts, responses, 0 * signs)
    if not given or [g.shape for _, g in given] != [g.shape for _, g in without]:
        return None
    slopes, parts = [], _less(given, without)
    gradient = {id(f): g for f, g in parts}
    for sample in located([f for f, _ in parts], [[]] * len(responses), responses):
        if sample is None:
            continue
        for place, token in zip(sample.predicting(), sample.response, strict=True):
            size = gradient[id(sample.forward)][sample.row, place].abs().double()
            logits = sample.forward.logits[sample.row, place].detach().double()
            size[token] = 0.0
            often = size > 1e-3 * size.max()
            if int(often.sum()) > 3 and float(size.max()) > 0:
                x, y = logits[often], size[often].log()
                x, y = x - x.mean(), y - y.mean()
                slope = float((x * y).sum() / (x * x).sum().clamp(min=1e-12))
                if float((y - slope * x).abs().max()) < 0.05 * max(1.0, float(y.abs().max())):
                    slopes.append(slope)
    return 1 / float(torch.tensor(slopes).median()) if len(slopes) > 2 and min(slopes) > 1e-3 else None


def _gradients(loss: Callable[..., Tensor], model: torch.nn.Module, *samples: Any) -> list[tuple[Forward, Tensor]]:
    """Return the gradients on the logits, always with the same random state, because a trainer may shuffle its rows."""
    fixed_chance(MIXES)
    with watched(model) as seen:
        back_to_logits(loss(*samples), seen)
    return [(f, f.logits.grad.float()) for f in seen if f.logits.grad is not None]


def sampler_weights(
    loss: Callable[..., Tensor], model: torch.nn.Module, prompts: Sequence[Prompt], responses: Sequence[Ids], far: float
) -> tuple[list[Tensor], list[float]] | None:
    """Return the weights (R,) of the tokens of each sample, and a factor per sample. The factor is the change in the
    weight of the first token if the sampler reports a log-probability that is lower or higher by ``far``. Return None
    if the loss does not use the values of the sampler."""
    if not structure(loss, [model], prompts, responses).samples:
        return None
    temperature = temperature_of(loss, model, prompts, responses) or 1.0
    ratios = [far * (-1) ** n for n in range(len(responses))]
    own = pushes(loss, model, prompts, responses, temperature=temperature)
    told = pushes(loss, model, prompts, responses, log_ratios=ratios, temperature=temperature, sampler_alone=True)
    times = [float(b.towards[0] / a.towards[0]) if a.trained[0] else 1.0 for a, b in zip(own, told, strict=True)]
    pairs = [(a.towards[a.trained], b.towards[a.trained]) for a, b in zip(own, told, strict=True)]
    moved = any(bool(((b - a).abs() > 0.05 * a.abs()).any()) for a, b in pairs)
    return ([p.weight for p in own], times) if moved else None


def _pushes(
    parts: Sequence[tuple[Forward, Tensor]], responses: Sequence[Ids], least: float, temperature: float = 1.0
) -> list[GradientEffect]:
    found = located([f for f, _ in parts], [[]] * len(responses), responses)
    gradient = {id(f): g for f, g in parts}
    out = []
    for sample in found:
        if sample is None:
            raise Unjudged("the batch of the loss does not contain the sampled ids; see GEN005")
        out.append(_effect_on(sample, gradient[id(sample.forward)][sample.row], least, temperature))
    return out


def _effect_on(sample: Sample, gradient: Tensor, least: float, temperature: float) -> GradientEffect:
    at = gradient[sample.predicting()]
    size, target = at.abs(), torch.tensor(sample.response, device=at.device)
    trained = size.amax(-1) > least
    towards = -at.gather(-1, target[:, None]).squeeze(-1) * trained
    logits = sample.forward.logits[sample.row, sample.predicting()].detach().float() / temperature
    chance = logits.softmax(-1).gather(-1, target[:, None]).squeeze(-1)
    weight = towards / (1 - chance) * (chance < 0.9)
    moved = int(sample.of_logits((gradient.abs().amax(-1) > least).float(), 0.0).sum())
    return GradientEffect(towards, trained, size.argmax(-1) == target, moved - int(trained.sum()), weight)


@contextmanager
def _older(
    model: torch.nn.Module,
    responses: Sequence[Ids],
    log_ratios: Sequence[float] | None,
    temperature: float,
    places: frozenset[int],
    sampler_alone: bool = False,
) -> Iterator[None]:
    """Make passes without gradient and sampling loops lower the log-probability of each response's first token by its
    log-ratio.

    The block contains one loss; ``places`` are the positions of its detached passes.
    """
    apart = PassClassifier(places)

    def older(forward: Forward) -> Tensor | None:
        if log_ratios is None or not apart(forward) or (sampler_alone and not sampling.made(forward)):
            return None
        logits = forward.logits.clone()
        for sample, log_ratio in zip(located([forward], [[]] * len(responses), responses), log_ratios, strict=True):
            if sample is not None and sample.predicting()[0] >= 0:  # a sampler, with only the last position
                _shift(logits[sample.row, sample.predicting()[0]], sample.response[0], log_ratio, temperature)
        return logits

    def drawn(response: Ids, logits: Tensor) -> None:
        for said, log_ratio in zip(responses, log_ratios or (), strict=True):
            if response[: len(said)] == list(said):
                _shift(logits, said[0], log_ratio, temperature)

    told = nullcontext() if log_ratios is None else kept_in(OLDER, drawn)
    with told, scripted_sampling() as sampling, forwards([model], older):
        yield


def _shift(logits: Tensor, token: int, log_ratio: float, temperature: float) -> None:
    """Change one logit in (V,) so that its log-probability at the temperature decreases by the log-ratio."""
    now = (logits.double() / temperature).log_softmax(-1)[token].exp()
    wanted = (now * torch.exp(torch.tensor(-log_ratio, dtype=now.dtype))).clamp(max=0.99)
    logits[token] += (temperature * (torch.logit(wanted) - torch.logit(now))).to(logits)
