from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from grpo_doctor import Fires, fires, probe, probes

LOUD = 1e4
"""Factor that scales the advantages, so that the gradient norm exceeds any limit in use."""


@probe("GRD007", kind="defect", severity="error", explains=("GRD002",))
def clip_without_effect(
    step: Any,
    model: Any,
    optimizer: Any,
    render: Any,
    tokenizer: Any,
    settings: Any = None,
    prompts: Any = None,
    *,
    slack: float = 0.02,
) -> Fires | None:
    """The optimizer receives gradients above the trainer's clipping limit.

    ## What it sees
    The probe runs one of the trainer's own steps on samples with advantages of ten thousand. At `optimizer.step`, the
    policy's gradient norm must not exceed `settings["max_grad_norm"]`. Without this setting, the limit is the value
    passed to `torch.nn.utils.clip_grad_norm_`. A separate critic is not judged.

    ## Thresholds
    - `slack`: excess of the norm over the limit, as a share of the limit, above which the probe fires.

    ## Why it matters
    Clipping protects the run from the rare batch whose gradient norm is a hundred times too large. Clipping has no
    effect if it is applied to a copy of the parameters, to another model, before the backward pass or after the step. A
    bug in the clipping stays hidden until a batch with a large gradient norm occurs.

    ## Example
    ```python
    from my_trainer import loss, model, optimizer, prompts, render, tokenizer
    from torch.nn.utils import clip_grad_norm_

    settings = {"max_grad_norm": 1.0}


    def step(prompts, responses, advantages):
        optimizer.zero_grad()
        loss(prompts, responses, advantages).backward()
        optimizer.step()
        clip_grad_norm_(model.parameters(), 1.0)
    ```
    Error: The optimizer receives a gradient of norm 1.18e+05, but the declared clipping limit is 1.

    ```python
    from my_trainer import loss, model, optimizer, prompts, render, tokenizer
    from torch.nn.utils import clip_grad_norm_

    settings = {"max_grad_norm": 1.0}


    def step(prompts, responses, advantages):
        optimizer.zero_grad()
        loss(prompts, responses, advantages).backward()
        clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    ```
    No finding.

    ## What this certifies, and what it does not
    The probe certifies that the norm of the gradient is bounded when the optimizer reads it, for one process and one
    optimizer. The probe does not certify that the limit is sensible (GRD004), and does not cover clipping by value.

    ## Known false alarms
    Some trainers clip each parameter group to the limit separately.

    ## Remedy
    Clip the gradients of the parameters that the optimizer updates, after backward and before its step.

    ## Sources
    PyTorch, `torch.nn.utils.clip_grad_norm_`: changes `.grad` of the tensors it is given, and of no others.
    """
    if isinstance(step, probes.updates.PlainStep):
        raise probes.NotApplicable("the adapter has no `step` function")
    made, _, responses = probes.crafted_inputs.answered(render, tokenizer, model, prompts)
    norms: list[float] = []
    own = set(model.parameters())  # a critic may have a separate bound, or none

    def caught(*args: Any, **kwargs: Any) -> None:
        given = [p for g in optimizer.param_groups for p in g["params"] if p.grad is not None and p in own]
        held = [p.grad.float().norm() for p in given]
        norms.append(float(sum(n.square() for n in held) ** 0.5) if held else 0.0)

    with (
        probes.model_modes.without_dropout(model),
        _clips() as bounds,
        probes.intercept.replaced(optimizer, "step", caught),
    ):
        step(made, responses, LOUD * probes.loss_trials.spread(len(made), model))
    declared = (settings or {}).get("max_grad_norm")
    bound = declared if isinstance(declared, int | float) and declared > 0 else min(bounds, default=None)
    if bound is None:
        raise probes.NotApplicable("neither settings['max_grad_norm'] nor a call to clip_grad_norm_ gives a bound")
    norm = max(norms, default=0.0)
    if norm < bound / 2:
        raise probes.Unjudged("the gradient stayed below the limit")
    return fires(
        norm > bound * (1 + slack),
        "The optimizer receives a gradient of norm {norm:.3g}, but the declared clipping limit is {bound:g}.",
        norm=norm,
        bound=float(bound),
    )


@contextmanager
def _clips() -> Iterator[list[float]]:
    """Record the limits passed to ``clip_grad_norm_`` inside the block, under whatever name it was imported."""
    from torch.nn.utils import clip_grad

    bounds: list[float] = []
    inner = getattr(clip_grad, "_clip_grads_with_norm_", None)
    if inner is None:  # before torch 2.6
        yield bounds
        return

    def noting(parameters: Any, max_norm: float, *args: Any, **kwargs: Any) -> Any:
        bounds.append(float(max_norm))
        return inner(parameters, max_norm, *args, **kwargs)

    with probes.intercept.replaced(clip_grad, "_clip_grads_with_norm_", noting):
        yield bounds
