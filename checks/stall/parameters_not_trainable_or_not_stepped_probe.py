import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from grpo_doctor import Fires, fires, probe, probes


@probe("STL004", severity="critical", explains=("STL005", "UPD002", "GRD006", "ENT006", "ENT011", "RAT007", "KL004"))
def probe_step(
    model: Any,
    render: Any,
    tokenizer: Any,
    step: Any = None,
    backward: Any = None,
    optimizer: Any = None,
    prompts: Any = None,
) -> Fires | None:
    """## What this certifies, and what it does not
    The probe certifies neither the direction of the gradient (RAT007) nor the size of a step (STL001, STL003). The
    probe does not cover sharded optimizers (ZeRO-3, FSDP), whose parameters are separate objects by design.

    ## What the probe does
    The probe checks that parameters require a gradient, and that the optimizer contains exactly these parameters. An
    optimizer with less than a quarter of the trainable values is accepted: it trains an adapter or the last layers of
    an unfrozen model. The advantages must change the gradient and reach every parameter that affects the
    log-probabilities; otherwise, severity is **error**. The gradient that the optimizer receives must also reach every
    parameter that affects the log-probabilities. The trainer's own step, with advantages of both signs, must change the
    weights along the negative gradient. A learning rate of 0 at the first step (warm-up) is accepted if the second step
    changes the weights.
    """
    named = probes.loss_trials.trainable(model)
    if not named:
        return fires(True, "No parameter requires a gradient.")
    missing = _missing_parameters(optimizer, named)
    if missing and not _optimizes_few(optimizer, named):
        return _outside_optimizer(missing, named)
    made, _, responses = probes.crafted_inputs.answered(render, tokenizer, model, prompts)
    samples = made, responses, probes.loss_trials.spread(len(made), model)
    down = None
    if backward is not None:
        with probes.model_modes.without_dropout(model):
            down, added = _gradients(model, backward, named, samples)
            meant = functools.partial(probes.loss_trials.towards, model, render, tokenizer, *samples)
            if (found := _of_gradient(model, named, down, added, meant)) is not None:
                return found
        if isinstance(step, probes.updates.PlainStep) and step.backward is backward:  # its gradient is already known
            step = functools.partial(_stepped, optimizer, [p for _, p in named], _by_parameter(down, named))
    if step is None:
        raise probes.NotApplicable("needs step, or an optimizer and a loss")
    fresh = optimizer is not None and not optimizer.state
    moved, steps = _weight_change(step, optimizer, [p for _, p in named], samples)
    if moved is None:
        return fires(
            True,
            "Two updates, one with positive and one with negative advantages, changed none of the {trainable} "
            "trainable tensors.",
            trainable=len(named),
        )
    up = down is not None and probes.loss_trials.cosine(moved, down) > 0.1
    if probes.updates.maximises(optimizer):  # the loss then has the opposite sign, which only the samples show
        up = probes.loss_trials.cosine(moved, probes.loss_trials.towards(model, render, tokenizer, *samples)) < -0.02
    # if an optimizer scales each of several steps, their sum need not follow the gradient
    if fresh and up and len(steps) < 2:
        return fires(True, "An update increases the loss: the weights move along the gradient instead of against it.")
    given = frozenset[int]().union(*steps)
    expected = [(name, p) for name, p in _reached(named, down) if steps and name not in missing]
    return _partly([name for name, p in expected if id(p) not in given], named)


def _stepped(optimizer: Any, parameters: list[Any], gradients: Any, *samples: Any) -> None:
    """Make one optimizer step with the given gradients."""
    optimizer.zero_grad(set_to_none=True)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient.view_as(parameter).to(parameter) if bool(gradient.any()) else None
    optimizer.step()


def _by_parameter(gradient: Any, named: list[tuple[str, Any]]) -> Any:
    """Split a gradient vector of all parameters into one part per parameter."""
    return gradient.split([p.numel() for _, p in named])


def _gradients(model: Any, backward: Any, named: list[tuple[str, Any]], samples: Any) -> tuple[Any, Any]:
    """Return the gradient of the samples, and the part of the last layers' gradient that comes from the advantages."""
    import torch

    made, responses, advantages = samples
    down = probes.loss_trials.gradient(model, backward, *samples)
    with probes.loss_trials.last_layers(model, backward):
        some = {name for name, _ in probes.loss_trials.trainable(model)}
        without = probes.loss_trials.gradient(model, backward, made, responses, 0 * advantages)
    parts = zip(named, _by_parameter(down, named), strict=True)
    return down, torch.cat([part for (name, _), part in parts if name in some]) - without


def _of_gradient(
    model: Any, named: list[tuple[str, Any]], down: Any, added: Any, meant: Callable[[], Any]
) -> Fires | None:
    """Fire if the advantages do not change the gradient, or if it is 0 for parameters that the gradient of the
    log-probabilities (``meant``) reaches."""
    frozen = float(down.norm()) == 0 and any("lora_B" in name for name, _ in model.named_parameters())
    if not frozen and float(added.norm()) <= 1e-6 * float(down.norm()):
        return fires(True, "The advantages have no effect on the gradient: the log-probabilities are detached.")
    reached = {name for name, _ in _reached(named, down)}
    if len(reached) in (0, len(named)):
        return None
    sizes = [float(part.norm()) for part in _by_parameter(meant(), named)]
    least = 1e-3 * max(sizes)
    return _partly([n for (n, _), s in zip(named, sizes, strict=True) if n not in reached and s > least], named)


def _partly(dropped: list[str], named: list[tuple[str, Any]]) -> Fires | None:
    if not dropped:
        return None
    return fires(
        True,
        "No gradient reaches {dropped} of {trainable} trainable tensors (for example {first}), although they affect "
        "the log-probabilities.",
        error=True,
        dropped=len(dropped),
        trainable=len(named),
        first=dropped[0],
    )


def _reached(named: list[tuple[str, Any]], gradient: Any) -> list[tuple[str, Any]]:
    """Return the parameters whose part of a gradient vector is not 0, or none if there is no gradient."""
    parts = () if gradient is None else _by_parameter(gradient, named)
    return [pair for pair, part in zip(named, parts, strict=False) if bool(part.any())]


def _missing_parameters(optimizer: Any, named: list[tuple[str, Any]]) -> list[str]:
    """Return the trainable parameters that are missing from the optimizer."""
    if optimizer is None:
        return []
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    return [name for name, p in named if id(p) not in held]


def _outside_optimizer(missing: list[str], named: list[tuple[str, Any]]) -> Fires:
    return fires(
        True,
        "{missing} of {trainable} trainable tensors are not in the optimizer (for example {first}).",
        missing=len(missing),
        trainable=len(named),
        first=missing[0],
    )


def _optimizes_few(optimizer: Any, named: list[tuple[str, Any]]) -> bool:
    """Return whether the optimizer contains some trainable parameters, but less than a quarter of their values. The
    optimizer then trains an adapter, or the last layers of a model whose other layers were not frozen."""
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    own: int = sum(p.numel() for _, p in named if id(p) in held)
    every: int = sum(p.numel() for _, p in named)
    return 0 < 4 * own < every


def _weight_change(step: Any, optimizer: Any, parameters: list[Any], samples: Any) -> tuple[Any, list[frozenset[int]]]:
    """Return the change in the weights by the first of two updates that has an effect, as one vector. Also return the
    `_steps` of the optimizer in that update. Return None if neither update has an effect."""
    import torch

    before = [p.detach().clone() for p in parameters]
    for _ in range(2):
        with _steps(optimizer) as steps:
            step(*samples)
        moved = torch.cat([(p.detach() - b).flatten().float() for p, b in zip(parameters, before, strict=True)])
        if bool(moved.any()):
            return moved, steps
    return None, []


@contextmanager
def _steps(optimizer: Any) -> Iterator[list[frozenset[int]]]:
    """Record the ids of the parameters that have a gradient, for each step that the optimizer makes inside the
    block."""
    seen: list[frozenset[int]] = []
    if optimizer is None:
        yield seen
        return
    own = optimizer.step

    def step(*args: Any, **kwargs: Any) -> Any:
        held = (p for group in optimizer.param_groups for p in group["params"])
        seen.append(frozenset(id(p) for p in held if p.grad is not None and bool(p.grad.any())))
        return own(*args, **kwargs)

    with probes.intercept.replaced(optimizer, "step", step):
        yield seen
