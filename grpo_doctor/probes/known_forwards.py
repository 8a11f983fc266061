"""Caches forward passes, because probes repeat the same ids under the same weights many times.

If the result of a forward pass without gradient is cached, the pass is not computed again. A pass whose gradient is
needed only up to the logits (`intercept.ending_at_logits`) is cached as well. In this case, the weights get a gradient
of 0. A forward pass that draws random numbers, or that returns more than logits and a cache, is never cached.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from .intercept import ENDING, PRECISIONS, Precision, around, language_model, logits_in, precision, with_logits

MOST = 2**30
"""Maximum size of the cached logits in bytes."""

_PLAIN = frozenset((type(None), bool, int, float, str))


class KnownForwards:
    """The cached outputs of some models, oldest first."""

    def __init__(self, models: Sequence[Any]) -> None:
        self.models = list(dict.fromkeys(language_model(m) for m in models if m is not None))
        self._known: OrderedDict[Any, tuple[Any, Precision]] = OrderedDict()
        self._size = 0
        self._odd: set[Any] = set()
        """Kinds of calls that are never cached."""
        self._parts: dict[int, tuple[list[torch.nn.Module], list[Tensor]]] = {}
        """The modules and weights of each model."""
        self._restored: dict[int, int] = {}
        """The version of each weight of the models at the start of the block."""
        self._first = {id(m): id(next(one for one in self.models if _equal(one, m))) for m in self.models}
        """For each model, the first model with the same weights at the start of the block. For a reference, this is
        usually the policy."""

    @contextmanager
    def used(self) -> Iterator[None]:
        """Return cached results for forward passes inside the block if no gradient needs to pass through the model."""
        self._parts = {id(m): (_modules(m), _weights(m)) for m in self.models}
        self._restored = {id(w): w._version for _, weights in self._parts.values() for w in weights}
        with around("forward", self.models, self._forward):
            yield

    def _key(self, module: torch.nn.Module, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Return the inputs, weights and module settings that determine the logits, or None if an input is not a plain
        value or a tensor without gradient."""
        given = [*enumerate(args), *sorted(kwargs.items())]
        if any(value.requires_grad if isinstance(value, Tensor) else type(value) not in _PLAIN for _, value in given):
            return None
        if id(module) not in self._parts:
            self._parts[id(module)] = _modules(module), _weights(module)
        parts, weights = self._parts[id(module)]
        norms = fingerprint(weights)
        settings = [v for m in parts for v in vars(m).values() if type(v) in _PLAIN]
        changes = [w._version - self._restored.get(id(w), -1) for w in weights]
        inputs = tuple((name, _bytes(value)) for name, value in given)
        own = [*changes, *map(id, weights)] if any(changes) else [self._first.get(id(module), id(module))]
        return type(module), inputs, *settings, *own, norms, torch.is_autocast_enabled(weights[0].device.type)

    def _forward(self, call: Any, module: Any, *args: Any, **kwargs: Any) -> Any:
        kind = id(module), module.training, len(args), *sorted(kwargs)
        needless = bool(ENDING) or not torch.is_grad_enabled()
        key = self._key(module, args, kwargs) if needless and kind not in self._odd else None
        if key is not None and key not in self._known:
            output, precise = _computed(call, args, kwargs)
            if output is None:
                self._odd.add(kind)
            else:
                self._keep(key, output, precise)
        if key is None or key not in self._known:
            return call(*args, **kwargs)
        known, precise = self._known[key]
        for found in PRECISIONS:
            found.half = found.half or precise.half
        logits = logits_in(known)
        trained = [w for w in self._parts[id(module)][1] if w.requires_grad]
        scored: Any = _Scored.apply
        fresh = scored(logits, *trained) if trained and torch.is_grad_enabled() else logits.clone()
        if isinstance(known, OrderedDict) and [*known] == ["logits"]:
            return type(known)(logits=fresh)  # the deepcopy of a library's output is slow
        return with_logits(copy.deepcopy(known, {id(logits): logits}), fresh)

    def _keep(self, key: Any, output: Any, precise: Precision) -> None:
        self._known[key] = output, precise
        self._size += logits_in(output).nbytes
        while self._size > MOST and len(self._known) > 1:
            self._size -= logits_in(self._known.popitem(last=False)[1][0]).nbytes


def _weights(model: Any) -> list[Tensor]:
    return [*model.parameters(), *model.buffers()] if isinstance(model, torch.nn.Module) else []


def _equal(one: Any, other: Any) -> bool:
    """Return whether two models have the same modules, configuration and weights."""
    if one is other:
        return True
    if _kind(one) != _kind(other):
        return False
    pairs = zip(_weights(one), _weights(other), strict=True)
    return all(a.dtype == b.dtype and a.device == b.device and torch.equal(a, b) for a, b in pairs)


def _kind(model: Any) -> tuple[list[type], str]:
    return [*map(type, _modules(model))], repr(getattr(model, "config", None))


def _modules(model: Any) -> list[torch.nn.Module]:
    return [*model.modules()] if isinstance(model, torch.nn.Module) else [model]


SAMPLED = 2**12
"""Number of values of a weight that its fingerprint covers. An update of a weight changes all its values."""


def sampled(weight: Tensor) -> Tensor:
    """Return the values of a weight that its fingerprint covers: all values of a small weight."""
    own = weight.detach()
    return own if own.numel() <= SAMPLED else own.flatten()[:: own.numel() // SAMPLED]


def fingerprint(weights: Sequence[Tensor]) -> tuple[float, ...]:
    """Return the norm of a part of each weight, which reveals even changes that do not increase the version that
    autograd counts."""
    floating = [sampled(w) for w in weights if w.is_floating_point()]
    return tuple(torch.stack(torch._foreach_norm(floating, dtype=torch.float32)).tolist())


def _computed(call: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, Precision]:
    """Return the output of a forward pass without a gradient, or None if the output must not be cached."""
    with torch.random.fork_rng(), torch.no_grad(), precision() as precise:
        before = _random()
        output = call(*args, **kwargs)
        drawn = any(not torch.equal(one, other) for one, other in zip(before, _random(), strict=True))
    fields = output.values() if hasattr(output, "keys") else output if isinstance(output, tuple | list) else [output]
    alone = logits_in(output) is not None and sum(isinstance(value, Tensor) for value in fields) == 1
    return (output if alone and not drawn else None), precise


def _random() -> list[Tensor]:
    cuda: Any = torch.cuda
    return [torch.get_rng_state(), *(cuda.get_rng_state_all() if cuda.is_initialized() else [])]


def _bytes(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    return value.shape, value.dtype, value.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


class _Scored(torch.autograd.Function):
    """Attach logits to these parameters with a gradient of 0. If the gradient of the logits is not finite, the gradient
    of the parameters is NaN, because trainers check whether the gradient is finite before a step."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, *parameters: Tensor) -> Tensor:
        ctx.save_for_backward(*parameters)
        return logits.clone()  # a trainer may change its logits in place, which autograd does not allow for an input

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        nothing = gradients[0].sum() * 0
        return None, *(nothing.to(p).expand_as(p) for p in ctx.saved_tensors)
