from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, began, recent_mean


@check("RAT009", severity="warning", confidence="high", explains=("GRD002", "REW009", "STL001"), explains_from="error")
def effective_sample_size_low(
    effective_sample_share: Column,
    step: Column,
    *,
    low: float = 0.1,
    none: float = 0.02,
) -> Fires:
    """The importance weights concentrate on a few samples: the effective sample size is close to 0.

    ## What it sees
    The effective sample size of the importance weights is (sum w)^2 / sum w^2, as a share of the batch. Severity
    is **warning** if the mean of the last 5 rows is below 10%, and **error** if it is below 2%.

    ## Thresholds
    - `low`: share of the batch, 0 to 1, below which the severity is warning. At 10%, the gradient is as noisy as with a
      tenth of the responses.
    - `none`: share of the batch, 0 to 1, below which the severity is error. At 2%, five of 256 responses determine the
      gradient.

    ## Why it matters
    The variance of an importance-weighted gradient is inversely proportional to the effective sample size. Near 0, a
    few tokens or responses dominate each update, regardless of the batch size.

    ## Example
    ```text
    effective_sample_share: 0.9x10 0.05x10
    ```
    Warning at step 11: The effective sample size is 5.0% of the batch: a few samples dominate each update.

    ```text
    effective_sample_share: 0.9x20
    ```
    No finding.

    ## Known false alarms
    The effective sample size of sequence-level weights falls to a few percent sooner than that of token-level weights.

    ## Remedy
    Sample more often. Truncate the weights at 2, or reject tokens outside 0.5 to 2. Then fix the difference between
    trainer and rollout engine.

    ## Sources
    Kish's effective sample size; verl 0.9.1, `rollout_corr/rollout_is_eff_sample_size` (weights truncated at its
    threshold).
    """
    now = recent_mean(effective_sample_share)
    under = now < low
    return fires(
        under,
        "The effective sample size is {now:.1%} of the batch: a few samples dominate each update.",
        error=now < none,
        onset=began(under, effective_sample_share < low, step),
        now=now,
    )
