from typing import Any

from grpo_doctor import Fires, any_of, check, fires, probe, probes
from grpo_doctor.series import Column, is_any, where


@check("KL005", severity="info", confidence="high")
def kl_estimator_mismatch(
    known: Column = any_of("settings.kl_estimator", "settings.kl_penalty"),
    estimator: Column = any_of("settings.kl_estimator", optional=True),
    penalty: Column = any_of("settings.kl_penalty", "settings.kl_estimator", optional=True),
    in_loss: Column = any_of("settings.use_kl_loss", optional=True),
    in_reward: Column = any_of("settings.use_kl_in_reward", optional=True),
    kl_coef: Column = None,
) -> Fires:
    """The KL estimator does not suit the place where it is used.

    ## What it sees
    Declared settings only: k1 in the loss (`use_kl_loss` with `k1` or verl's `kl`): warning. k3 in the reward
    (`low_var_kl`, `k3`): info. Not checked if the coefficient is 0.

    ## Why it matters
    The value of k1 is unbiased, but its gradient as a loss has mean zero: the term adds noise and no pull. k3 as a loss
    has the gradient of another divergence, and k3 in the reward is biased. Only k1 in the reward, or k2 in the loss,
    has the gradient of the reverse KL.

    ## Known false alarms
    Every common placement has trained models. The estimator matters once the KL must keep the policy close to the
    reference.

    ## Remedy
    Use k1 in the reward or k2 in the loss.

    ## Sources
    arXiv 2506.09477 and 2512.21852; verl `kl_penalty_forward`; TRL `use_bias_correction_kl`; arXiv 2402.03300 eq. 4.
    """
    on = ~(kl_coef == 0)
    loss = on & (in_loss == 1) & is_any(estimator, "k1", "kl")
    rewarded = (in_reward == 1) | ((in_loss == 0) & ~(in_reward == in_reward))
    reward = on & rewarded & is_any(penalty, "k3", "low_var_kl")
    return fires(
        loss | reward,
        "{what}",
        warning=loss,
        hold=(1, 1),
        what=where(
            loss,
            "The KL term in the loss is k1, whose gradient has mean zero: it adds noise but no pull to the reference.",
            "The KL term in the reward is k3, which is biased there.",
        ),
    )


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
    """## What this certifies, and what it does not
    Runs only if the settings declare a `kl_coef` and no `entropy_coef`. With advantages of zero, only the KL gradient
    remains. The probe fires if moving the reference does not change this gradient and if it is parallel to the gradient
    of the responses' mean log-probability (|cosine| above 0.95). The loss then uses k1 or its opposite, and the
    reference does not affect the update.
    If only an `objective` is given, the probe computes its gradient on synthetic log-probabilities.
    It certifies that the term depends on the reference. It does not identify the estimator otherwise.
    """
    coefficient = (settings or {}).get("kl_coef")
    if not coefficient or (settings or {}).get("entropy_coef"):
        raise probes.NotApplicable("settings declare no kl_coef alone")
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
        "and does not depend on the reference.",
        form="k1" if found > 0 else "ref - new (k1 with the wrong sign)",
        surrogate=abs(found),
    )


def _of_objective(objective: Any) -> float | None:
    """Return 1 or -1 if, at zero advantages, the objective lowers or raises all log-probabilities equally for any
    reference; 0 if the reference matters, None if there is no gradient."""
    if objective is None:
        raise probes.NotApplicable("needs objective, or backward and reference with render, model and tokenizer")
    same, more = probes.gradient_effect.pulls(objective)
    if bool(more.any()):
        return 0.0
    if not bool(same.any()):
        return None
    return -float(same.sign().mean())
