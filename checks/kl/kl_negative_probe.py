import math
from typing import Any

from grpo_doctor import Fires, fires, probe, probes


@probe("KL004", severity="critical")
def probe_sign(
    backward: Any = None,
    model: Any = None,
    render: Any = None,
    tokenizer: Any = None,
    reference: Any = None,
    loss: Any = None,
    objective: Any = None,
    settings: Any = None,
    prompts: Any = None,
    *,
    least_cosine: float = 0.3,
) -> Fires | None:
    """## What the probe does
    With advantages of zero, the probe moves the reference model slightly away from the policy, and measures how the
    applied gradient changes. The change must point in the direction in which the squared log-ratio grows (for k2 and
    k3, a cosine of 1 or slightly less). With the correct sign, a step moves the policy towards the reference model. A
    cosine below -0.3 means that the KL term has the wrong sign and rewards divergence.

    If the adapter has no reference model, the probe uses the loss's forward passes without gradient. In the passes
    without gradient, the probe lowers the log-probability of the first token of two samples and raises that of two
    others. The policy's log-probabilities must move in the same direction. For an adapter with only an `objective`, the
    probe computes the gradient of the objective on four tokens. The reference model assigns two of these tokens a
    higher probability than the policy does, and the other two a lower one.

    Severity is error if a `kl_coef` is declared, but the gradient is 0 at advantages of zero. A KL in the reward
    (`settings["use_kl_in_reward"]`), or k1 in the loss, has no gradient towards the reference model and is not judged.

    ## What this certifies, and what it does not
    The probe certifies the direction of the KL term. The probe does not certify the size of the coefficient (KL002).

    ## Thresholds of the probe
    - `least_cosine`: cosine between a step and the direction away from the reference model above which the KL term has
      the wrong sign.
    """
    if (settings or {}).get("kl_coef") == 0:
        raise probes.NotApplicable("settings['kl_coef'] is 0: there is no KL term")
    if backward is None or render is None or model is None or tokenizer is None:
        return _of_objective(objective)
    if reference is None:
        return _of_anchor(loss, model, *probes.gradient_effect.four(render, tokenizer, model, prompts))
    if not any(own is not other for own, other in zip(model.parameters(), reference.parameters(), strict=False)):
        raise probes.Unjudged("policy and reference model share their weights")
    found = probes.loss_trials.divergence_cosine(backward, model, reference, render, tokenizer, prompts)
    if found is None and _expected(settings) and probes.loss_trials.silent(backward, model, render, tokenizer, prompts):
        return _absent(settings)
    if found is None:
        raise probes.NotApplicable("the reference model does not change the gradient at zero advantages")
    if math.isnan(found):
        raise probes.Unjudged("the gradient at zero advantages is not finite")
    return fires(
        not found >= -least_cosine,
        "A step on the KL term alone moves the policy away from the reference model (cosine {cosine:.2f} with the "
        "direction towards it).",
        cosine=found,
    )


def _expected(settings: Any) -> bool:
    """Return whether a KL term in the loss is declared, and no other term that has a gradient at zero advantages."""
    declared = settings or {}
    return bool(declared.get("kl_coef")) and not (declared.get("use_kl_in_reward") or declared.get("entropy_coef"))


def _absent(settings: Any) -> Fires:
    return fires(
        True,
        "A KL coefficient of {coefficient:g} is declared, but the loss has no KL term: its gradient at zero "
        "advantages is 0.",
        error=True,
        coefficient=float(settings["kl_coef"]),
    )


def _of_objective(objective: Any) -> Fires:
    """Return a finding if the objective moves log-probabilities away from those of the reference."""
    if objective is None:
        raise probes.NotApplicable("needs objective, or backward with render, model and tokenizer")
    _, more = probes.gradient_effect.pulls(objective)
    if not bool(more.any()):
        raise probes.NotApplicable("the reference model does not change the objective's gradient at zero advantages")
    away = int((more * probes.loss_trials.torch_of(probes.gradient_effect.TOWARDS, None) < 0).sum())
    return fires(
        away > 2,
        "The objective's KL term moves the policy away from the reference model on {away} of 4 tokens.",
        away=away,
    )


def _of_anchor(loss: Any, model: Any, made: Any, responses: Any) -> Fires:
    """Return a finding if the policy moves away from the log-probabilities of the forward passes without gradient."""
    if loss is None:
        raise probes.NotApplicable("needs reference, or loss")
    lower = [1.0, -1.0, 1.0, -1.0]
    moved = probes.gradient_effect.anchor_effect(loss, model, made, responses, lower)
    if not any(moved):
        raise probes.NotApplicable("no forward pass under no_grad affects the gradient at zero advantages")
    away = sum(m * by > 0 for m, by in zip(moved, lower, strict=True))
    return fires(
        away > sum(m * by < 0 for m, by in zip(moved, lower, strict=True)),
        "A step on the KL term alone moves the policy away from the reference model on {away} of 4 tokens.",
        away=away,
    )
