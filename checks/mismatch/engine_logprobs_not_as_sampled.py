from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, moving_median, where
from grpo_doctor.series.mismatch_parts import EXPLAINS


@check(
    "MIS013",
    kind="defect",
    severity="warning",
    confidence="medium",
    explains=EXPLAINS,
    invalidates=("importance ratios since step {onset}",),
)
def engine_logprobs_not_as_sampled(
    rollout_mismatch_k1: Column,
    rollout_mismatch_kl: Column,
    *,
    excluded: float = 0.01,
    much: float = 0.05,
    beyond: float = 0.05,
    times: float = 3.0,
    rows: int = 5,
) -> Fires:
    """The log-probabilities of the rollout engine are not those under which the tokens were sampled.

    ## What it sees
    The check compares two estimates of the KL between engine and trainer, k1 (the mean log-ratio) and k3. The
    difference k1 minus k3 equals 1 minus the mean importance weight. The difference is 0 if the engine sampled from the
    probabilities that it records. The check uses medians over 5 rows. If the difference is above 0.01 and k1 is more
    than three times k3, the sampler excludes or penalises tokens that the loss does not. Severity is warning, or error
    if the difference is above 0.05. If the difference is below -0.05 and k3 is more than three times |k1|, the recorded
    log-probabilities belong to other tokens. Severity is then error.

    ## Thresholds
    - `excluded`: 1 minus the mean importance weight above which the severity is warning.
    - `much`: 1 minus the mean importance weight above which the severity is error.
    - `beyond`: mean importance weight minus 1 above which the severity is error.
    - `times`: ratio of k1 to k3, or of k3 to |k1|, above which the check fires.
    - `rows`: number of rows over which the medians are computed.

    ## Why it matters
    Importance weights do not correct the mismatch if their denominator is not the sampling probability. A mean weight
    far from 1 scales every update.

    ## Example
    ```text
    rollout_mismatch_k1: 0.064x10
    rollout_mismatch_kl: 0.013x10
    ```
    Error at step 5: The sampler excludes or penalises tokens that the loss does not: the mean importance weight is
    0.949 instead of 1.

    ```text
    rollout_mismatch_k1: 0.001x10
    rollout_mismatch_kl: 0.001x10
    ```
    No finding.

    ## Known false alarms
    Heavy-tailed weights from very stale rollouts have a sample mean below 1. The k3 of heavy-tailed weights is also
    large, so the check does not fire.

    ## Remedy
    Sample with `top_p=1.0, top_k=0, repetition_penalty=1.0`. Record the log-probabilities after temperature and
    filters, one per sampled token.

    ## Sources
    Identity E[weight] = 1; verl `rollout_corr/kl` and `rollout_corr/k3_kl` in public notes on Dynamo with SGLang
    (0.0020 and 0.0020 with a native engine; 0.0035 and up to 1635 with an engine that cut log-probabilities at the
    wrong places); a public TRL run with a mean weight of 0.03 under a repetition penalty.
    """
    missing = moving_median(rollout_mismatch_k1 - rollout_mismatch_kl, rows)
    k1, k3 = moving_median(rollout_mismatch_k1, rows), moving_median(rollout_mismatch_kl, rows)
    filters = (missing > excluded) & (k1 > times * k3)
    other = (missing < -beyond) & (k3 > times * abs(k1))
    return fires(
        filters | other,
        "{what}: the mean importance weight is {weight:.3g} instead of 1.",
        error=other | (filters & (missing > much)),
        what=where(
            filters,
            "The sampler excludes or penalises tokens that the loss does not",
            "The rollout engine's log-probabilities belong to tokens other than those sampled",
        ),
        weight=1 - missing,
    )
