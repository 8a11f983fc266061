import math
from typing import Any

import numpy as np

from grpo_doctor import Fires, any_of, check, fires, probe, probes
from grpo_doctor.series import Column, fmin, is_any, isnan, recent_mean, where


@check("KL004", kind="defect", severity="warning", confidence="medium")
def kl_negative(
    known: Column = any_of("kl", "kl_k1", "kl_k3", "kl_sequence"),
    kl: Column = None,
    kl_k1: Column = None,
    kl_k3: Column = None,
    kl_sequence: Column = None,
    estimator: Column = any_of("settings.kl_estimator", optional=True),
    in_loss: Column = any_of("settings.use_kl_loss", optional=True),
    *,
    warn: float = -0.05,
    bad: float = -1.0,
    impossible: float = -1e-3,
    summed: float = -1.0,
    summed_bad: float = -5.0,
    rows: int = 10,
) -> Fires:
    """The estimated KL is negative, which is impossible for the true KL.

    ## What it sees
    On 3 of 5 rows: a signed (k1) estimate, or one of unknown kind, below -0.05 (warning) or below -1 (error); an
    estimate that the log calls k2 or k3 below -0.001 (critical: these are never negative), except in runs that
    declare an unused KL loss and log something else. A signed KL that is summed over the response (TRL PPO
    `objective/kl`): below -1 a warning, below -5 an error. For a signed estimate, the mean of the last 10 values must
    also be below the warning limit, because single batches scatter around 0.

    ## Thresholds
    - `warn`: signed KL, nats per token, below which it is a warning.
    - `bad`: signed KL, nats per token, below which it is an error.
    - `impossible`: k2 or k3, nats per token, below which its sign or formula is wrong.
    - `summed`: signed KL summed over the response, nats, below which it is a warning.
    - `summed_bad`: the same sum for an error.
    - `rows`: recorded signed estimates whose mean must be below the limit as well.

    ## Why it matters
    k1 is unbiased only for samples of the policy itself. A mean clearly below 0 shows that the samples come from a
    different distribution: sampling filters, another temperature, forced tokens, stale weights. A penalty on it then
    rewards the policy for moving away.

    ## Known false alarms
    Single batches of k1 scatter around small values. In bf16, rounding makes k3 slightly negative, so the limit is
    -0.001 instead of 0.

    ## Remedy
    Use plain sampling (no top-k, top-p, penalties or minimum length) and a k3 or k2 estimate.

    ## Sources
    huggingface/trl#235, #417; Schulman, "Approximating KL divergence" (k1, k2, k3).
    """
    positive = is_any(estimator, "k2", "k3", "mse", "low_var_kl", "full") & ~(in_loss == 0)
    signed = fmin(where(positive, np.nan, kl), kl_k1)
    never = fmin(where(positive, kl, np.nan), kl_k3)
    value = fmin(signed, never)
    mean, mean_summed = recent_mean(signed, rows), recent_mean(kl_sequence, rows)
    low, low_summed = (signed < warn) & ~(mean >= warn), (kl_sequence < summed) & ~(mean_summed >= summed)
    return fires(
        low | (never < impossible) | low_summed,
        "The estimated KL to the reference is {value:.3g} nats/{of}.",
        error=((signed < bad) & low) | (never < impossible) | ((kl_sequence < summed_bad) & low_summed),
        critical=never < impossible,
        value=where(isnan(value), kl_sequence, value),
        of=where(isnan(value), "response", "token"),
    )


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
    """## What this certifies, and what it does not
    The probe moves the reference a little away from the policy and, at advantages of zero, takes what that adds to the
    applied gradient. It must point the way in which the squared log-ratio grows (cosine 1, or somewhat less, for
    k2 and k3): then a step leads back to the reference. A cosine below -0.3 is a KL term of the wrong sign, which
    rewards divergence. Where the adapter names no reference, forwards that the loss makes without gradient
    replace it: they give the first token of two samples a lower log-probability and that of two others a higher
    one, and the policy's must be moved the same way. It does not certify the size of the coefficient (KL002), and
    a KL that is in the reward (`settings["use_kl_in_reward"]`), or k1 in the loss, leaves no such gradient and is
    not judged. A declared `kl_coef` without any gradient at advantages of zero is an error. An `objective` that is
    given alone is asked for its gradient on four log-probabilities, which the reference finds likelier or less
    likely.

    ## Thresholds of the probe
    - `least_cosine`: cosine with the direction towards the reference whose negative means a wrong sign.
    """
    if (settings or {}).get("kl_coef") == 0:
        raise probes.NotApplicable("settings['kl_coef'] is 0: there is no KL term")
    if backward is None or render is None or model is None or tokenizer is None:
        return _of_objective(objective)
    if reference is None:
        return _of_anchor(loss, model, *probes.gradient_effect.four(render, tokenizer, model, prompts, [3, 5, 2, 4]))
    if not any(own is not other for own, other in zip(model.parameters(), reference.parameters(), strict=False)):
        raise probes.Unjudged("reference and model share their weights")
    found = probes.loss_trials.divergence_cosine(backward, model, reference, render, tokenizer, prompts)
    if found is None and _expected(settings) and probes.loss_trials.silent(backward, model, render, tokenizer, prompts):
        return _absent(settings)
    if found is None:
        raise probes.NotApplicable("the reference adds nothing to the gradient at zero advantages")
    if math.isnan(found):
        raise probes.Unjudged("the gradient at zero advantages is not finite")
    return fires(
        not found >= -least_cosine,
        "A step on the KL term alone moves the policy away from the reference (cosine {cosine:.2f} with the "
        "direction towards it).",
        cosine=found,
    )


def _expected(settings: Any) -> bool:
    """Whether a KL term in the loss is declared, and no other term that would leave a gradient without advantages."""
    declared = settings or {}
    return bool(declared.get("kl_coef")) and not (declared.get("use_kl_in_reward") or declared.get("entropy_coef"))


def _absent(settings: Any) -> Fires:
    return fires(
        True,
        "A KL coefficient of {coefficient:g} is declared, but the loss has no KL term: "
        "at zero advantages it has no gradient.",
        error=True,
        coefficient=float(settings["kl_coef"]),
    )


def _of_objective(objective: Any) -> Fires:
    """Fires where the objective moves log-probabilities away from those of the reference."""
    if objective is None:
        raise probes.NotApplicable("needs objective, or backward with render, model and tokenizer")
    _, more = probes.gradient_effect.pulls(objective)
    if not bool(more.any()):
        raise probes.NotApplicable("the reference adds nothing to the gradient of the objective at zero advantages")
    away = int((more * probes.loss_trials.torch_of(probes.gradient_effect.TOWARDS, None) < 0).sum())
    return fires(
        away > 2,
        "The objective's KL term moves the policy away from the reference on {away} of 4 tokens.",
        away=away,
    )


def _of_anchor(loss: Any, model: Any, made: Any, responses: Any) -> Fires:
    """Fires where the policy moves away from what the forwards without gradient say."""
    if loss is None:
        raise probes.NotApplicable("needs reference, or loss")
    lower = [1.0, -1.0, 1.0, -1.0]
    moved = probes.gradient_effect.moved_by_anchor(loss, model, made, responses, lower)
    if not any(moved):
        raise probes.NotApplicable("no forward without gradient acts on the gradient at zero advantages")
    away = sum(m * by > 0 for m, by in zip(moved, lower, strict=True))
    return fires(
        away > sum(m * by < 0 for m, by in zip(moved, lower, strict=True)),
        "A step on the KL term alone moves the policy away from the reference on {away} of 4 tokens.",
        away=away,
    )
