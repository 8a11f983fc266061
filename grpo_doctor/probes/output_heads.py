"""Handles backbones and heads that are called separately. The logits of all positions are computed, regardless of which
positions the trainer requests.

To save memory, trainers apply the head only to hidden states that predict a response, in chunks, through the head's
module or its weight. Therefore, the head is applied once to all states of a backbone, and the result of the trainer's
call is taken from these logits.
"""

from __future__ import annotations

import functools
import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, TypeAlias

import torch
from torch import Tensor

PRODUCTS = (
    (torch.nn.functional, "linear"),
    (torch, "matmul"),
    (torch, "mm"),
    (torch, "einsum"),
    (torch.Tensor, "matmul"),
    (torch.Tensor, "mm"),
    (torch.Tensor, "__matmul__"),
)
"""Functions that multiply states with the weight of a head."""

_KEPT = 8
"""Number of backbone passes whose states are kept, because passes of several models or batches may precede the call of
the head."""

Given: TypeAlias = "tuple[Tensor, Tensor | None]"
"""The ids (N, T) and the attention mask of a forward pass."""


class States:
    """The hidden states (N, T, H) of a backbone for ids (N, T), and the logits of all states."""

    def __init__(self, model: Any, head: Any, given: Given) -> None:
        self.model, self.head, self.given = model, head, given
        self.states: Tensor | None = None
        self.logits: Tensor | None = None
        self._rows: dict[torch.dtype, dict[bytes, list[int]]] = {}
        self._last = -1

    def shares(self, some: Tensor) -> bool:
        """Return whether some states (..., H) are a view of the states of this pass."""
        own = self.states
        return own is not None and own.untyped_storage().data_ptr() == some.untyped_storage().data_ptr()

    def like(self, some: Tensor) -> bool:
        """Return whether these states and the states of this pass either both have a gradient or both have none."""
        return self.states is not None and self.states.requires_grad == some.requires_grad

    def places(self, some: Tensor) -> Tensor | None:
        """Return the indices (...,) of some states (..., H) among the N * T positions, or None if a state is not found.
        Copied states are identified by their values, in order, because states are equal only if their preceding ids are
        equal.
        """
        own = self.states
        if own is None or some.shape[-1] != own.shape[-1]:
            return None
        size, steps = own.shape[-1], some.stride()[:-1]
        if self.shares(some) and own.is_contiguous() and some.stride(-1) == 1 and not any(s % size for s in steps):
            index = torch.arange(own.shape[0] * own.shape[1], device=some.device)
            first = (some.storage_offset() - own.storage_offset()) // size
            return index.as_strided(some.shape[:-1], [s // size for s in steps], first)
        known = self._known(some.dtype)
        found = []
        for row in _bytes(some):
            if (same := known.get(row)) is None:
                return None
            self._last = same[bisect_right(same, self._last) % len(same)]
            found.append(self._last)
        return torch.tensor(found, device=some.device).view(some.shape[:-1])

    def _known(self, dtype: torch.dtype) -> dict[bytes, list[int]]:
        """Return the positions of states by their bytes, after conversion to this precision."""
        if dtype not in self._rows:
            assert self.states is not None
            self._rows[dtype] = {}
            for n, row in enumerate(_bytes(self.states.to(dtype))):
                self._rows[dtype].setdefault(row, []).append(n)
        return self._rows[dtype]


def of_states(gradient: Tensor, logits: Tensor, weight: Tensor, temperature: float = 1.0) -> tuple[Tensor, float]:
    """Return the gradient (M, V) on logits that explains a gradient on states (M, H). The loss must use the
    log-probability of one token per position.

    The gradient on logits is ``c * (one_hot(token) - softmax(logits / T))``. The token is the best fit; T is the same
    for all positions, and is searched unless the given T fits.
    """
    at = gradient.norm(dim=-1) > 1e-6 * gradient.norm(dim=-1).max()
    found = torch.zeros_like(logits)
    if not bool(at.any()):
        return found, temperature

    def fit(power: float, some: Tensor, own: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the cosine (M, V) with the gradient that each token would cause, the factor by which this gradient
        must be multiplied, and the probabilities."""
        likely = (own / math.exp(power)).softmax(-1)
        mean = likely @ weight
        along = some @ weight.t() - (some * mean).sum(-1, keepdim=True)
        square = weight.square().sum(-1) - 2 * mean @ weight.t() + mean.square().sum(-1, keepdim=True)
        square = square.clamp(min=1e-12)
        return along / (square.sqrt() * some.norm(dim=-1, keepdim=True)), along / square, likely

    few = gradient[at][:8], logits[at][:8]

    def off(power: float) -> float:
        return float((1 - fit(power, *few)[0].abs().amax(-1)).sum())

    best = math.log(temperature)
    if off(best) > 1e-5:
        best = min((n / 4 for n in range(-6, 7)), key=off)
        low, high = best - 0.25, best + 0.25
        for _ in range(16):
            third = (high - low) / 3
            low, high = (low + third, high) if off(low + third) > off(high - third) else (low, high - third)
        best = (low + high) / 2
    cosine, size, likely = fit(best, gradient[at], logits[at])
    token = cosine.abs().argmax(-1, keepdim=True)
    found[at] = size.gather(-1, token) * (torch.zeros_like(likely).scatter_(-1, token, 1.0) - likely)
    return found, math.exp(best)


def _anew(states: Tensor) -> bool:
    """Return whether checkpointing recomputes these states in the backward pass, which detaches them from their
    inputs."""
    return torch.is_grad_enabled() and states.is_leaf and states.requires_grad


def _bytes(states: Tensor) -> list[bytes]:
    flat = states.detach().cpu().reshape(-1, states.shape[-1]).contiguous()
    return [row.tobytes() for row in flat.view(torch.uint8).numpy()]


class Heads:
    """The heads that are recorded.

    Args:
        given: finds the ids and the mask in the arguments of a call.
        handed: receives a model, its input, the states (N, T, H) if known, and the logits (N, T, V) at all positions or
            at the last positions; may return other logits.
        inside: whether a model is called as a whole and is therefore recorded elsewhere; always false inside `opened`.
    """

    def __init__(
        self,
        given: Callable[..., Given | None],
        handed: Callable[[Any, Given, Tensor | None, Tensor], Tensor | None],
        inside: Callable[[], bool],
    ) -> None:
        self.given, self.handed, self.inside = given, handed, inside
        self.passes: list[States] = []
        self.depth = 0
        """Number of calls of heads that are in progress."""
        self.open = False
        self.temperature = 1.0
        """Temperature of the loss, for a head that is called as a plain function."""

    def _quiet(self) -> bool:
        return self.depth > 0 or (self.inside() and not self.open)

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Record the logits of a model inside the block even if the model is called as a whole."""
        before, self.open = self.open, True
        try:
            yield
        finally:
            self.open = before

    @contextmanager
    def watched(self, model: Any, first: Any, makers: Sequence[Any], last: Any) -> Iterator[None]:
        """Record, inside the block, the module that takes the ids, the modules that may return the states, and the
        head. Copies of a model keep its hooks, but are ignored."""

        def asked(module: Any, args: Any, kwargs: dict[str, Any], output: Any) -> None:
            found = None if module is not first or self._quiet() else self.given(args, kwargs)
            if found is not None:
                self.passes = [*self.passes[1 - _KEPT :], States(model, last, found)]

        def made(module: Any, args: Any, output: Any) -> None:
            if not self._quiet():
                self._made(last, output)

        def begun(module: Any, args: Any) -> None:
            self.depth += module is last

        def ended(module: Any, args: Any, output: Any) -> Tensor | None:
            self.depth -= module is last
            if module is not last or not isinstance(output, Tensor) or not args or self._quiet() or _anew(args[0]):
                return None
            found = self._output_of(args[0], output, last, [p for p in self.passes if p.head is last])
            return self._alone(last, output) if found is None else found

        with ExitStack() as stack:
            stack.callback(first.register_forward_hook(asked, with_kwargs=True).remove)
            for maker in makers:
                stack.callback(maker.register_forward_hook(made).remove)
            stack.callback(last.register_forward_pre_hook(begun).remove)
            stack.callback(last.register_forward_hook(ended, always_call=True).remove)
            yield

    def _made(self, head: Any, output: Any) -> None:
        """Record the states of the last pass before the head, unless that pass already returned logits."""
        states = getattr(output, "last_hidden_state", output)
        states = states[0] if isinstance(states, tuple | list) and states else states
        one = next((p for p in reversed(self.passes) if p.head is head), None)
        if one is None or one.logits is not None or not isinstance(states, Tensor):
            return
        if states.shape == (*one.given[0].shape, head.weight.shape[1]):
            one.states = states

    def product(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a product, and treat its result as the head's output if the factors are states and a matrix of the size
        of the head's weight."""

        @functools.wraps(function)
        def product(*args: Any, out: Tensor | None = None, **kwargs: Any) -> Any:
            output = function(*args, **kwargs) if out is None else function(*args, out=out, **kwargs)
            if not self.passes or self._quiet() or not isinstance(output, Tensor):
                return output
            at = [n for n, a in enumerate(args) if isinstance(a, Tensor)]
            if len(at) < 2 or _anew(args[at[0]]):
                return output
            some, weight = args[at[0]], args[at[1]]
            size = output.shape[-1:] + some.shape[-1:]  # V, H
            if output.shape[:-1] != some.shape[:-1] or weight.shape not in (size, size[::-1]):
                return output

            def project(states: Tensor) -> Any:
                return function(*args[: at[0]], states, *args[at[0] + 1 :], **kwargs)

            own = [p for p in self.passes if p.head.weight.shape == size]
            storage = weight.untyped_storage().data_ptr()
            own.sort(key=lambda p: p.head.weight.untyped_storage().data_ptr() == storage)
            found = self._output_of(some, output, project, own)
            if found is not None and out is not None:
                return out.copy_(found.detach())
            return output if found is None else found

        return product

    def _output_of(
        self, some: Tensor, output: Tensor, project: Callable[[Tensor], Any], passes: Sequence[States]
    ) -> Tensor | None:
        """Return the head's output for some states, taken from the replaced logits, or None if no pass contains the
        states."""
        enabled = torch.is_grad_enabled()
        for one in sorted(passes, key=lambda p: (p.shares(some), not enabled or p.like(some)))[::-1]:
            at = one.places(some)
            if at is not None:
                found: Tensor = self._logits(one, some, project).flatten(0, 1)[at]
                return found.to(output.dtype)
        return None

    def _logits(self, one: States, some: Tensor, project: Callable[[Tensor], Any]) -> Tensor:
        """Return the logits (N, T, V), computed only once. Inside a checkpointed region, no tensor is saved for
        recomputation, because the logits are not recomputed."""
        if one.logits is None:
            assert one.states is not None
            states = one.states.to(some.dtype)
            keep = torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t)
            self.depth += 1
            try:
                with keep, torch.set_grad_enabled(states.requires_grad):
                    logits = project(states.flatten(0, 1) if some.ndim == 2 else states)
                    logits = logits.view(*states.shape[:2], -1)
                    changed = self.handed(one.model, one.given, one.states, logits)
                    one.logits = logits if changed is None else changed
            finally:
                self.depth -= 1
            if states.requires_grad and not torch.is_grad_enabled():  # computed manually, or in another pass
                made = logits
                one.states.register_hook(lambda g: self._passed_on(g, made, one.head))  # type: ignore[no-untyped-call]
        return one.logits

    def _passed_on(self, gradient: Tensor, logits: Tensor, head: Any) -> None:
        """Set the gradient of logits (N, T, V) that have none to the gradient that explains the gradient of the states
        (N, T, H)."""
        if not logits.retains_grad or logits.grad is not None:
            return
        left, made = gradient.flatten(0, 1).double(), logits.detach().flatten(0, 1).double()
        self.depth += 1
        found, self.temperature = of_states(left, made, head.weight.detach().double(), self.temperature)
        self.depth -= 1
        logits.grad = found.view(logits.shape).to(logits.dtype)

    def _alone(self, head: Any, output: Tensor) -> Tensor | None:
        """Handle other states, for which the trainer requests the logits of the last positions of a batch."""
        one = next((p for p in reversed(self.passes) if p.head is head), None)
        if one is None or len(output) != len(one.given[0]):
            return None
        if one.states is not None and output.ndim == 3 and output.shape[1] != one.given[0].shape[1]:
            return None
        if output.ndim != 3 and (output.ndim != 2 or output.requires_grad):
            return None
        changed = self.handed(one.model, one.given, one.states, output if output.ndim == 3 else output[:, None])
        return changed if changed is None or output.ndim == 3 else changed[:, 0]
