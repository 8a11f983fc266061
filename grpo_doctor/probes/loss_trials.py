"""Evaluates a loss: its gradient, and the parts that come from entropy and from the reference.

Shapes are described in `grpo_doctor.probes.entry_points`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .crafted_inputs import answered, complete, device_of, flat_ids, pad_left, plain_ids, rendered, special_ids
from .entry_points import Ids, Prompt, Unjudged
from .intercept import kept_in, logits_of
from .model_modes import fixed_chance, without_dropout
from .updates import PlainBackward

_MEASURED: list[set[int]] = []
"""The ids of the parameters whose gradients are read; those of the innermost block are last."""


def trainable(model: torch.nn.Module) -> list[tuple[str, torch.nn.Parameter]]:
    """Return the parameters that require a gradient, by name. Inside `last_layers`, return only the last layers."""
    every = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    return [(name, p) for name, p in every if id(p) in _MEASURED[-1]] if _MEASURED else every


def gradient(model: torch.nn.Module, leave: Callable[..., Any], *args: Any, **kwargs: Any) -> Tensor:
    """Return the gradient in ``p.grad`` after a call with these arguments, as one vector; ``p.grad`` is empty before
    and after."""
    parameters = [p for _, p in trainable(model)]
    if not parameters:
        raise Unjudged("no parameter requires a gradient; see STL004")
    model.zero_grad(set_to_none=True)
    fixed_chance()
    leave(*args, **kwargs)
    parts = [torch.zeros_like(p).flatten() if p.grad is None else p.grad.detach().flatten() for p in parameters]
    model.zero_grad(set_to_none=True)
    return torch.cat([part.float() for part in parts])


def unmoved(
    model: torch.nn.Module, backward: Callable[..., Any], prompts: Sequence[Prompt], responses: Sequence[Ids]
) -> Tensor:
    """Return the gradient without advantages.

    Equal advantages may give no gradient at all if they are whitened without an epsilon or if the batch is skipped.
    Without a gradient, return the mean of the gradients at some advantages and at their negatives, which cancel at a
    ratio of 1.
    """
    left = gradient(model, backward, prompts, responses, torch.zeros(len(prompts), device=device_of(model)))
    if bool(left.any()) or len(prompts) < 2:
        return left
    some = 1e-3 * spread(len(prompts), model)
    ahead, back = (gradient(model, backward, prompts, responses, sign * some) for sign in (1, -1))
    return (ahead + back) / 2


def cosine(a: Tensor, b: Tensor) -> float:
    """Return the cosine of two vectors; 0 if either vector is 0."""

    both = aa = bb = 0.0
    for part, other in zip(torch.split(a, 2**20), torch.split(b, 2**20), strict=True):
        x, y = part.double(), other.double()  # without copies of whole vectors
        both, aa, bb = both + float(x @ y), aa + float(x @ x), bb + float(y @ y)
    return both / (max(math.sqrt(aa), 1e-8) * max(math.sqrt(bb), 1e-8))


def spread(count: int, model: Any) -> Tensor:
    """Return advantages (N,) of both signs with mean 0."""
    return torch.linspace(-1.0, 1.0, count, device=device_of(model))


def torch_of(values: Sequence[float], model: Any) -> Tensor:
    """Return these numbers as a tensor on the model's device."""
    return torch.tensor(values, device=device_of(model))


def advantages_of(advantages: Callable[[Tensor], Any], rewards: Tensor) -> Tensor:
    """Return advantages (G, K) for rewards (G, K), even if the function returns the advantages flat or as a numpy
    array."""
    found = advantages(rewards.clone())
    return torch.as_tensor(found).detach().double().reshape(rewards.shape)


def equal_prompts(
    render: Callable[[Prompt], Any],
    tokenizer: Any,
    model: Any,
    prompts: Sequence[Prompt] | None,
    lengths: Sequence[int] = (4, 4, 4, 4),
) -> tuple[list[Prompt], list[Ids]]:
    """Return the shortest prompt several times, with canary responses of these lengths. By default, the batch needs no
    padding."""
    prompt, own = rendered(render, prompts)[0]
    return [prompt] * len(lengths), complete(plain_ids(tokenizer, model, [own]), lengths, special_ids(tokenizer).eos)


def towards(
    model: torch.nn.Module,
    render: Callable[[Prompt], Any],
    tokenizer: Any,
    prompts: Sequence[Prompt],
    responses: Sequence[Ids],
    advantages: Tensor,
) -> Tensor:
    """Return the gradient of the advantage-weighted mean log-probability, which is the intended direction of an
    update."""
    found = scored(model, [flat_ids(render(p)) for p in prompts], responses, tokenizer)
    return slope(model, sum(a * own.sum() for a, (_, own) in zip(advantages, found, strict=True)))


def scored(
    model: torch.nn.Module,
    prompts: Sequence[Ids],
    responses: Sequence[Ids],
    tokenizer: Any,
    temperature: float = 1.0,
) -> list[tuple[Tensor, Tensor]]:
    """Return, for each response, the log-probabilities of all tokens at its positions (R, V) and of its tokens (R,)."""
    rows = [[*p, *r] for p, r in zip(prompts, responses, strict=True)]
    ids, real = pad_left(rows, special_ids(tokenizer).pad, device_of(model))
    table = (logits_of(model, ids, real)[:, :-1].float() / temperature).log_softmax(-1)
    parts = [(table[n, -len(r) :], ids[n, -len(r) :, None]) for n, r in enumerate(responses)]
    return [(part, part.gather(-1, own).squeeze(-1)) for part, own in parts]


def slope(model: torch.nn.Module, value: Any, again: bool = False) -> Tensor:
    """Return the gradient of a value with respect to the trainable weights, as one vector. ``again`` keeps the graph
    for another gradient."""
    parameters = [p for _, p in trainable(model)]
    found = torch.autograd.grad(value, parameters, retain_graph=again, allow_unused=True, materialize_grads=True)
    return torch.cat([part.flatten().float() for part in found])


OPPOSITE = "mean gradient at opposite advantages"
"""Name of the trial that removes every part of the gradient that changes sign with the advantages."""


class EntropyCase(NamedTuple):
    """The part of the applied gradient that remains without advantages, for the given samples."""

    name: str
    samples: int
    cosine: float
    """Cosine between the descent direction and the gradient of the responses' mean entropy. The part along the gradient
    of their log-probability (a k1 KL term) is removed first."""
    surrogate: float
    """Cosine between the descent direction and the gradient of the responses' mean negative log-probability."""


def entropy_cases(
    backward: Callable[..., Any],
    model: torch.nn.Module,
    render: Callable[[Prompt], Any],
    tokenizer: Any,
    prompts: Sequence[Prompt] | None,
    reference: torch.nn.Module | None,
    settings: Mapping[str, Any],
) -> Generator[EntropyCase]:
    """Yield two cases for all samples together and for each sample: one at zero advantages, and one for the mean of the
    gradients at opposite advantages. Cases are computed on demand, because each case needs separate gradients.
    """
    made, _, responses = answered(render, tokenizer, model, prompts, (4, 2, 5, 3))
    temperature = float(settings.get("temperature") or 1.0)
    if reference is not None and reference is not model:
        align(reference, model)
    groups = [("all samples", slice(None))] + [(f"sample {n + 1} alone", slice(n, n + 1)) for n in range(len(made))]
    with without_dropout(model), without_critic(model, backward, made, responses), last_layers(model, backward):
        for name, own in groups:
            some, said = made[own], responses[own]
            # small, so that the policy gradient does not dominate the gradient of the entropy
            ones = torch.full((len(some),), 1e-3, device=device_of(model))
            plus = gradient(model, backward, some, said, ones)
            none = unmoved(model, backward, some, said)
            least = 1e-5 * max(float(plus.norm()), 1e-3)
            ids = [flat_ids(render(p)) for p in some]
            # losses use the entropy at temperature 1 or at the sampler's temperature; both are correct
            wanted = [_entropy_gradients(model, ids, said, tokenizer, t) for t in sorted({1.0, temperature})]
            for kind in ("zero advantages", OPPOSITE):
                left = none if kind != OPPOSITE else (plus + gradient(model, backward, some, said, -ones)) / 2
                if float(left.norm()) > least:
                    raised = max(_cosine_without(-left, *pair) for pair in wanted)
                    surprise = max((cosine(-left, s) for _, s in wanted), key=abs)
                    yield EntropyCase(f"{name}, {kind}", len(some), raised, surprise)
                elif bool(plus.any()) and float(none.norm()) > least:  # parts of opposite sign cancel
                    yield EntropyCase(f"{name}, {kind}", len(some), 0.0, 0.0)


@contextmanager
def without_critic(
    model: torch.nn.Module, backward: Callable[..., Any], prompts: Sequence[Prompt], responses: Sequence[Ids]
) -> Iterator[None]:
    """Train only the language-model head inside the block if the model has a value head with its own loss. The gradient
    of the value loss reaches the shared layers but not the language-model head."""
    layers = [m for m in model.modules() if isinstance(m, torch.nn.Linear)]
    values = [p for m in layers if m.out_features == 1 for p in m.parameters()]
    kept: list[Tensor] = [p for _, p in trainable(model)]
    if values and _moves(values, model, backward, prompts, responses):
        head = max(layers, key=lambda m: m.out_features).weight
        if any(head is m.weight for m in model.modules() if isinstance(m, torch.nn.Embedding)):
            raise Unjudged("the loss of the value head reaches the tied weights of the other head")
        kept = [head]
    with _trained_alone(model, kept):
        yield


DIRECTION = 2_000_000
"""Number of trainable weights that determine a direction well enough; a small model has fewer weights."""


@contextmanager
def last_layers(model: torch.nn.Module, backward: Callable[..., Any]) -> Iterator[None]:
    """For a large model, read the gradients only of the layers nearest to the logits inside the block.

    A plain backward pass also ends at these layers. If the trainer has its own `backward`, all parameters stay
    trainable, because the trainer may expect a gradient on every parameter.
    """
    kept: list[Tensor] = [p for _, p in trainable(model)]
    if sum(p.numel() for p in kept) > DIRECTION:
        kept = _nearest_to_logits(model) or kept
    if isinstance(backward, PlainBackward):
        with _trained_alone(model, kept):
            yield
    else:
        with kept_in(_MEASURED, {id(p) for p in kept}):
            yield


def _nearest_to_logits(model: torch.nn.Module) -> list[Tensor]:
    """Return the parameters next to the logits in the autograd graph, with at least `DIRECTION` values.

    Embeddings are omitted: a gradient on tied weights needs a backward pass through every layer.
    """
    embedded = {id(m.weight) for m in model.modules() if isinstance(m, torch.nn.Embedding)}
    one = torch.ones(1, 1, dtype=torch.long, device=device_of(model))
    nodes, seen, found = deque([logits_of(model, one, one).grad_fn]), set[Any](), list[Tensor]()
    while nodes and sum(p.numel() for p in found) < DIRECTION:
        node = nodes.popleft()
        if node is None or node in seen:
            continue
        seen.add(node)
        nodes.extend(after for after, _ in node.next_functions)
        parameter = getattr(node, "variable", None)
        if parameter is not None and id(parameter) not in embedded:
            found.append(parameter)
    return found


@contextmanager
def _trained_alone(model: torch.nn.Module, kept: Sequence[Tensor]) -> Iterator[None]:
    """Make these parameters the only trainable parameters of the model inside the block."""
    frozen = [p for _, p in trainable(model) if not any(p is own for own in kept)]
    for parameter in frozen:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in frozen:
            parameter.requires_grad_(True)


def _moves(
    parameters: Sequence[torch.nn.Parameter], model: torch.nn.Module, backward: Callable[..., Any], *samples: Any
) -> bool:
    """Return whether a loss without advantages has a gradient on some of these parameters."""
    model.zero_grad(set_to_none=True)
    backward(*samples, torch.zeros(len(samples[0]), device=device_of(model)))
    found = any(p.grad is not None and bool(p.grad.any()) for p in parameters)
    model.zero_grad(set_to_none=True)
    return found


def _cosine_without(left: Tensor, entropy: Tensor, surprise: Tensor) -> float:
    """Return the cosine of two vectors, or their cosine after the part along a third vector is removed from both,
    whichever is larger."""
    whole, along = cosine(left, entropy), surprise / surprise.norm().clamp(min=1e-12)
    rest, wanted = left - (left @ along) * along, entropy - (entropy @ along) * along
    if float(rest.norm()) < 0.05 * float(left.norm()):
        return whole
    return max(whole, cosine(rest, wanted))


def divergence_cosine(
    backward: Callable[..., Any],
    model: torch.nn.Module,
    reference: torch.nn.Module,
    render: Callable[[Prompt], Any],
    tokenizer: Any,
    prompts: Sequence[Prompt] | None,
) -> float | None:
    """Return the cosine between the reference's part of the applied gradient and the gradient of the squared log-ratio.

    The cosine is measured without advantages and with a reference close to the policy. Return None if the reference has
    no effect. All samples have the same length, because a trainer that treats padding as text would compute different
    log-ratios.
    """
    made, responses = equal_prompts(render, tokenizer, model, prompts)
    ids = [flat_ids(render(p)) for p in made]

    def own(scorer: torch.nn.Module) -> Tensor:
        return torch.cat([part for _, part in scored(scorer, ids, responses, tokenizer)])

    with without_dropout(model), last_layers(model, backward):
        align(reference, model)
        alone = unmoved(model, backward, made, responses)
        with torch.no_grad():
            for parameter in reference.parameters():
                parameter.add_(torch.randn_like(parameter), alpha=0.02)
            anchor = own(reference)
        added = unmoved(model, backward, made, responses) - alone
        wanted = slope(model, (own(model) - anchor).square().mean())
        align(reference, model)
        changed = unmoved(model, backward, made, responses) - alone  # such as by a coefficient that adapts to the KL
    least = max(1e-6 * max(float(wanted.norm()), 1e-3), float(changed.norm()))
    return None if float(added.norm()) <= least else cosine(added, wanted)


def silent(
    backward: Callable[..., Any],
    model: torch.nn.Module,
    render: Callable[[Prompt], Any],
    tokenizer: Any,
    prompts: Sequence[Prompt] | None,
) -> bool:
    """Return whether there is no gradient without advantages, although there is one with advantages."""
    made, responses = equal_prompts(render, tokenizer, model, prompts)
    with without_dropout(model), last_layers(model, backward):
        left = unmoved(model, backward, made, responses)
        some = gradient(model, backward, made, responses, spread(len(made), model))
    return float(left.norm()) <= 1e-6 * float(some.norm()) and bool(some.any())


def plain_cosine(
    backward: Callable[..., Any],
    model: torch.nn.Module,
    render: Callable[[Prompt], Any],
    tokenizer: Any,
    prompts: Sequence[Prompt] | None,
    temperature: float,
) -> float | None:
    """Return the cosine between the gradient without advantages and the gradient of the mean log-probability, or None
    if the gradient without advantages is zero.

    All samples have the same length, so the weights that the loss gives to tokens and samples do not matter.
    """
    made, responses = equal_prompts(render, tokenizer, model, prompts)
    with without_dropout(model), last_layers(model, backward):
        left = unmoved(model, backward, made, responses)
        ids = [flat_ids(render(p)) for p in made]
        ways = [_entropy_gradients(model, ids, responses, tokenizer, t)[1] for t in sorted({1.0, temperature})]
    found = max((cosine(-left, surprise) for surprise in ways), key=abs)
    return None if float(left.norm()) <= 1e-6 * float(ways[0].norm()) else found


@contextmanager
def weights_kept(model: torch.nn.Module) -> Iterator[None]:
    """Undo the changes that updates inside the block make to the trainable weights. A sampler's copy of the weights is
    not restored."""
    before = [(parameter, parameter.detach().clone()) for _, parameter in trainable(model)]
    try:
        yield
    finally:
        with torch.no_grad():
            for parameter, value in before:
                parameter.copy_(value)


def move(model: torch.nn.Module) -> None:
    """Change every trainable weight slightly, with a fixed random state."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for _, parameter in trainable(model):
            parameter.add_(0.02 * torch.randn(parameter.shape, generator=generator).to(parameter))


def align(reference: torch.nn.Module, model: torch.nn.Module) -> None:
    """Give the reference the policy's weights, so that KL has neither value nor gradient."""
    own = dict(model.named_parameters())
    with torch.no_grad():
        for name, parameter in reference.named_parameters():
            if name in own and own[name].shape == parameter.shape:
                parameter.copy_(own[name])


def _entropy_gradients(
    model: torch.nn.Module, prompts: Sequence[Ids], responses: Sequence[Ids], tokenizer: Any, temperature: float
) -> tuple[Tensor, Tensor]:
    """Return the gradients of the mean entropy and of the mean negative log-probability over the response tokens."""
    found = scored(model, prompts, responses, tokenizer, temperature)
    entropy = torch.cat([-(table.exp() * table).sum(-1) for table, _ in found])
    surprise = -torch.cat([own for _, own in found])
    return slope(model, entropy.mean(), again=True), slope(model, surprise.mean())
