from typing import Any

from grpo_doctor import Fires, fires, probe, probes


@probe("ENT007", kind="defect", severity="error")
def logged_loss_not_optimised_loss(
    loss: Any,
    backward: Any,
    model: Any,
    render: Any,
    tokenizer: Any,
    step: Any = None,
    optimizer: Any = None,
    prompts: Any = None,
    *,
    limit: float = 0.99,
    of_step: float = 0.5,
    of_step_alike: float = 0.95,
) -> Fires | None:
    """The applied gradient is not the gradient of the logged loss.

    ## What it sees
    The probe computes the gradient of the trainer's `loss` with autograd. It compares this gradient with the gradient
    that the trainer's own `backward` leaves in the parameters. The probe uses positive, negative and zero advantages,
    and fires if the cosine between the two gradients is below 0.99. The probe also compares the autograd gradient with
    the gradient that the optimizer receives in the trainer's own `step`, in one or several optimizer steps.
    Mini-batches in `step` may weight samples differently, so the limit is a cosine of 0.5, or 0.95 if all samples have
    the same length.

    ## Thresholds
    - `limit`: cosine between the two gradients below which the trainer counts as optimising a different loss.
    - `of_step`: cosine below which a gradient that `step` passes to the optimizer counts as that of a different loss.
    - `of_step_alike`: the same limit for samples with one prompt and one length, which every mini-batch weights
      equally.

    ## Why it matters
    If the applied gradient differs, the logged loss and its terms describe an objective that is not trained. The log of
    another objective cannot show a flipped sign, a detached KL term or a lost micro-batch.

    ## Example
    ```python
    from my_trainer import loss, model, prompts, render, tokenizer


    def backward(prompts, responses, advantages):
        loss(prompts, responses, advantages.clamp(min=0)).backward()
    ```
    Error: The cosine between the applied gradient and the gradient of the logged loss is 0.61.

    ```python
    from my_trainer import loss, model, prompts, render, tokenizer


    def backward(prompts, responses, advantages):
        loss(prompts, responses, advantages).backward()
    ```
    No finding.

    ## What this certifies, and what it does not
    The probe certifies the direction of the whole gradient before clipping. The probe certifies neither the norm of the
    gradient nor how the optimizer uses the gradient. ENT006 and GRD006 identify the term that causes the difference.

    ## Known false alarms
    If gradients conflict, gradient surgery (PCGrad, CAGrad) deviates from the gradient of the logged sum by design. If
    a run uses gradient surgery, ignore ENT007 and check ENT006. An adapter without its own `backward` or `step` is not
    judged.

    ## Remedy
    Compute one scalar loss, and call `backward` on it once.

    ## Sources
    BoBaCai/grpo-dual: printed and rebuilt loss right, applied gradient wrong (grpo-dual).
    """
    ways = [] if isinstance(backward, probes.updates.PlainBackward) else [(backward, limit)]
    if step is not None and optimizer is not None and not isinstance(step, probes.updates.PlainStep):
        ways.append((probes.updates.CaughtBackward(step, model, optimizer), of_step))
    if not ways:
        raise probes.NotApplicable("the adapter has no backward, and loss.backward() matches the loss by definition")
    if isinstance(loss, probes.updates.AppliedLoss):
        raise probes.NotApplicable("the adapter has no separate loss to compare with the gradient of backward")
    trials = probes.loss_trials
    made, _, responses = probes.crafted_inputs.answered(render, tokenizer, model, prompts)
    worst, parts = 1.0, False
    with probes.model_modes.without_dropout(model):
        some = trials.spread(len(made), model)
        for advantages in (some, 0 * some.abs()):
            logged = trials.gradient(model, probes.updates.PlainBackward(loss), made, responses, advantages)
            for way, least in ways:
                applied = trials.gradient(model, way, made, responses, advantages)
                if way is not backward and probes.updates.maximises(optimizer):
                    applied = -applied  # as the optimizer receives it, with the sign of the loss reversed
                # STL004 reports a step without a gradient
                if float(applied.norm()) > 1e-8 or (way is backward and float(logged.norm()) > 1e-8):
                    cosine = trials.cosine(applied, logged)
                    worst, parts = min(worst, cosine), parts or not cosine >= least
        if ways[-1][0] is not backward:
            found = _alike(
                loss, ways[-1][0], model, optimizer, *trials.equal_prompts(render, tokenizer, model, prompts)
            )
            worst, parts = min(worst, found), parts or not found >= of_step_alike
    return fires(
        parts,
        "The cosine between the applied gradient and the gradient of the logged loss is {cosine:.2f}.",
        cosine=worst,
    )


def _alike(loss: Any, step: Any, model: Any, optimizer: Any, made: Any, responses: Any) -> float:
    """Return the cosine between the gradient in a step and the gradient of the loss, or 1 if the step has no
    gradient."""
    trials = probes.loss_trials
    advantages = trials.torch_of([1.0, -1.0, 0.5, -0.5], model)  # both signs in each half, in case it is whitened
    logged = trials.gradient(model, probes.updates.PlainBackward(loss), made, responses, advantages)
    applied = trials.gradient(model, step, made, responses, advantages)
    turned = -applied if probes.updates.maximises(optimizer) else applied
    return trials.cosine(turned, logged) if float(applied.norm()) > 1e-8 < float(logged.norm()) else 1.0
