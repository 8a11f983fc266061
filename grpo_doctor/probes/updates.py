"""Derives `loss`, `backward` and `step` from each other, so that a trainer with only one of them can be probed like any
other."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from .entry_points import Adapter, Ids, Prompt
from .intercept import replaced

_FINE = {"render", "mask", "logprobs", "objective"}
"""Entry points from which a loss can be built."""


def derive_from_step(seams: Mapping[str, Callable[..., Any]], adapter: Adapter) -> dict[str, Callable[..., Any]]:
    """Derive `backward` from the adapter's own `step`, and `loss` from its own `backward` if there is no `loss`.

    If the optimizer maximises, nothing is derived, because the gradient in ``p.grad`` has the opposite sign.
    """
    found: dict[str, Callable[..., Any]] = {}
    model, optimizer = adapter.model, adapter.optimizer
    if "loss" in seams or seams.keys() >= _FINE or model is None or maximises(optimizer):
        return found
    if "backward" not in seams and "step" in seams and optimizer is not None:
        found["backward"] = CaughtBackward(seams["step"], model, optimizer)
    backward = found.get("backward", seams.get("backward"))
    if backward is not None:
        found["loss"] = AppliedLoss(backward, model)
    return found


def updates(seams: Mapping[str, Callable[..., Any]], adapter: Adapter) -> dict[str, Callable[..., Any]]:
    """Derive `backward` from `loss`, and `step` from `backward`, if they are missing."""
    found: dict[str, Callable[..., Any]] = {}
    if "backward" not in seams and "loss" in seams:
        found["backward"] = PlainBackward(seams["loss"])
    backward = found.get("backward", seams.get("backward"))
    if "step" not in seams and adapter.optimizer is not None and backward is not None:
        found["step"] = PlainStep(backward, adapter.optimizer)
    return found


class CaughtBackward:
    """Captures the gradient that a trainer's own `step` passes to its optimizer. The optimizer step and the clipping of
    the norm are skipped."""

    def __init__(self, step: Callable[..., Any], model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self.step, self.model, self.optimizer = step, model, optimizer
        self.updates = 0
        """The number of optimizer steps in the last call."""

    def __call__(self, prompts: Sequence[Prompt], responses: Sequence[Ids], advantages: Tensor) -> Any:
        own = [p for group in self.optimizer.param_groups for p in group["params"]]
        before = [(p, p.grad) for p in {*own, *self.model.parameters()}]
        caught: dict[Tensor, Tensor] = {}

        def catch(*args: Any, **kwargs: Any) -> None:
            self.updates += 1
            for parameter, _ in before:
                if parameter.grad is not None:
                    new, known = parameter.grad.detach(), caught.get(parameter)
                    caught[parameter] = new.clone() if known is None else known + new

        for parameter, _ in before:
            parameter.grad = None
        self.updates = 0
        with replaced(self.optimizer, "step", catch), replaced(torch.nn.utils, "clip_grad_norm_", _norm):
            found = self.step(prompts, responses, advantages)
        for parameter, gradient in before:
            new = caught.get(parameter)
            parameter.grad = gradient if new is None else new if gradient is None else gradient + new
        return found


def _norm(parameters: Any, *args: Any, **kwargs: Any) -> Tensor:
    """Return the norm of the gradients without clipping them."""
    some = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    gradients = [p.grad for p in some if p.grad is not None]
    return torch.linalg.vector_norm(torch.stack([g.norm() for g in gradients])) if gradients else torch.tensor(0.0)


class AppliedLoss:
    """Computes a scalar whose gradient is the result of `backward`, used if the adapter has no `loss`. The value of the
    scalar is the number that `backward` returns, or 0.
    """

    def __init__(self, backward: Callable[..., Any], model: torch.nn.Module) -> None:
        self.backward, self.model = backward, model

    @property
    def updates(self) -> int:
        """The number of updates for which the last value was computed."""
        return getattr(self.backward, "updates", 1)

    def __call__(self, prompts: Sequence[Prompt], responses: Sequence[Ids], advantages: Tensor) -> Tensor:
        before = [(p, p.grad) for p in self.model.parameters()]
        for parameter, _ in before:
            parameter.grad = None
        returned = self.backward(prompts, responses, advantages)
        value = torch.as_tensor(returned).detach() if isinstance(returned, int | float | Tensor) else torch.tensor(0.0)
        total = value.float().sum().to(before[0][0].device)
        for parameter, gradient in before:
            left, parameter.grad = parameter.grad, gradient
            if left is not None:
                total = total + ((parameter - parameter.detach()) * left).sum()
        return total


def maximises(optimizer: torch.optim.Optimizer | None) -> bool:
    """Return whether every parameter group of an optimizer maximises."""
    return optimizer is not None and all(group.get("maximize") for group in optimizer.param_groups)


def turned(seams: Mapping[str, Callable[..., Any]], adapter: Adapter) -> dict[str, Callable[..., Any]]:
    """Return the loss and the gradient of a trainer that maximises with the opposite sign, as probes expect."""
    out: dict[str, Callable[..., Any]] = {}
    for name in {"loss", "objective"} & seams.keys():
        out[name] = functools.wraps(seams[name])(lambda *given, f=seams[name]: -f(*given))
    if isinstance(own := seams.get("backward"), PlainBackward):
        out["backward"] = PlainBackward(out["loss"])
    elif own is not None:

        @functools.wraps(own)
        def backward(*given: Any, **more: Any) -> None:
            own(*given, **more)
            for parameter in adapter.model.parameters() if adapter.model is not None else ():
                if parameter.grad is not None:
                    parameter.grad.neg_()

        out["backward"] = backward
    return out


class PlainBackward:
    """``loss(...).backward()``, used if the adapter has no `backward`."""

    def __init__(self, loss: Callable[..., Tensor]) -> None:
        self.loss = loss

    def __call__(self, prompts: Sequence[Prompt], responses: Sequence[Ids], advantages: Tensor) -> None:
        value = self.loss(prompts, responses, advantages)
        if value.requires_grad:  # otherwise no parameter is connected, which STL004 reports
            torch.autograd.backward(value)


class PlainStep:
    """``zero_grad``, `backward`, ``optimizer.step()``, used if the adapter has no `step`."""

    def __init__(self, backward: Callable[..., Any], optimizer: torch.optim.Optimizer) -> None:
        self.backward, self.optimizer = backward, optimizer

    def __call__(self, prompts: Sequence[Prompt], responses: Sequence[Ids], advantages: Tensor) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        self.backward(prompts, responses, advantages)
        self.optimizer.step()
