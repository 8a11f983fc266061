from typing import Any

from grpo_doctor import Fires, fires, probe, probes


@probe("KL005", severity="warning")
def probe_estimator(
    backward: Any = None,
    model: Any = None,
    render: Any = None,
    tokenizer: Any = None,
    reference: Any = None,
    objective: Any = None,
    prompts: Any = None,
    settings: Any = None,
) -> Fires | None:
    """## What the probe does
    The probe runs only if the settings declare a `kl_coef` and no `entropy_coef`. With advantages of zero, only the KL
    gradient remains. The probe fires if this gradient does not change when the reference model moves, and is parallel
    to the gradient of the responses' mean log-probability (|cosine| above 0.95). Such a gradient means that the loss
    uses k1 or -k1, and that the reference model does not affect the update. If only an `objective` is given, the probe
    computes the gradient of the objective on synthetic log-probabilities.

    ## What this certifies, and what it does not
    The probe certifies that the KL term depends on the reference model. The probe does not identify the estimator in
    any other way.
    """
    coefficient = (settings or {}).get("kl_coef")
    if not coefficient or (settings or {}).get("entropy_coef"):
        raise probes.NotApplicable("needs settings with a kl_coef and without an entropy_coef")
    trials = probes.loss_trials
    if backward is None or render is None or model is None or tokenizer is None or reference is None:
        found = _of_objective(objective)
    elif trials.divergence_cosine(backward, model, reference, render, tokenizer, prompts) is not None:
        return None
    else:
        temperature = float((settings or {}).get("temperature") or 1.0)
        found = trials.plain_cosine(backward, model, render, tokenizer, prompts, temperature)
    if found is None:
        raise probes.Unjudged(
            "no gradient remains at zero advantages: the KL is not in the loss, or it is k1 in the reward"
        )
    return fires(
        abs(found) > 0.95,
        "The KL term of the loss is {form}: its gradient is that of the mean log-probability (cosine {surrogate:.2f}) "
        "and does not depend on the reference model.",
        form="k1" if found > 0 else "ref - new (k1 with the wrong sign)",
        surrogate=abs(found),
    )


def _of_objective(objective: Any) -> float | None:
    """Return 1 or -1 if, at zero advantages, the objective lowers or raises all log-probabilities equally for any
    reference. Return 0 if the reference matters, and None if there is no gradient."""
    if objective is None:
        raise probes.NotApplicable("needs objective, or backward and reference with render, model and tokenizer")
    same, more = probes.gradient_effect.pulls(objective)
    if bool(more.any()):
        return 0.0
    if not bool(same.any()):
        return None
    return -float(same.sign().mean())
