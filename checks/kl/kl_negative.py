import numpy as np

from grpo_doctor import Fires, any_of, check, fires
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
    """The estimated KL is negative, although the true KL cannot be.

    ## What it sees
    The check fires if the estimate is below its limit on 3 of 5 rows. For a signed (k1) estimate, or for an estimate of
    unknown type, severity is warning below -0.05 and error below -1. Severity is critical for a k2 or k3 estimate below
    -0.001, because these estimates are never negative. The declared estimator is ignored if the settings disable the KL
    loss. For a signed KL that is summed over the response (`objective/kl` of TRL's PPO), severity is warning below -1
    and error below -5. For a signed estimate, the mean of the last 10 values must also be below the warning limit,
    because single batches vary around 0.

    ## Thresholds
    - `warn`: signed KL, nats per token, below which the severity is warning.
    - `bad`: signed KL, nats per token, below which the severity is error.
    - `impossible`: k2 or k3 estimate, nats per token, below which the sign or the formula of the estimate is wrong.
    - `summed`: signed KL summed over the response, nats, below which the severity is warning.
    - `summed_bad`: signed KL summed over the response, nats, below which the severity is error.
    - `rows`: number of recorded signed estimates whose mean must be below the warning limit.

    ## Why it matters
    The k1 estimate is unbiased only for samples of the scored policy. A mean clearly below 0 shows that the samples
    come from a different distribution: sampling filters, a different temperature, forced tokens, or stale weights. A
    penalty on a negative estimate rewards the policy for moving away from the reference model.

    ## Example
    ```text
    kl_k1: 0.1x5 -0.3x3
    ```
    Warning at step 6: The estimated KL to the reference model is -0.3 nats/token.

    ```text
    kl_k1: 0.1x5 -0.02x3
    ```
    No finding.

    ## Known false alarms
    The k1 estimate of a single batch may be slightly negative by chance. Rounding in bf16 makes k3 slightly negative,
    so its limit is -0.001 instead of 0.

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
        "The estimated KL to the reference model is {value:.3g} nats/{of}.",
        error=((signed < bad) & low) | (never < impossible) | ((kl_sequence < summed_bad) & low_summed),
        critical=never < impossible,
        value=where(isnan(value), kl_sequence, value),
        of=where(isnan(value), "response", "token"),
    )
