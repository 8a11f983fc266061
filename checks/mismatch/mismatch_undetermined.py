from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, baseline, each
from grpo_doctor.series.mismatch_parts import unexplained


@check(
    "MIS012",
    kind="remark",
    severity="info",
    confidence="high",
)
def mismatch_undetermined(
    mismatch_causes: Column,
    rollout_gap: Column = None,
    *,
    rest: float = 0.5,
    warn: float = 2e-3,
    equal: float = 1e-4,
) -> Fires:
    """The token batch does not show why rollout engine and trainer differ.

    ## What it sees
    The check fires if the difference exceeds rounding (KL above 0.002 nats per token) and more than half of it has no
    known cause. The check does not fire if both sides agreed on the first batch (KL below 1e-4). The KL is estimated as
    the mean of exp(x) - 1 - x over tokens (k3), where x is the log-probability difference.

    ## Thresholds
    - `rest`: share of the difference without a known cause, 0 to 1, above which the check fires.
    - `warn`: KL, in nats per token, above which the check fires. RAT004 has the same limit.
    - `equal`: KL on the first batch, in nats per token, below which MIS001 fires instead of this check.

    ## Why it matters
    Without a reference model, weight versions or a second pass, stale and quantised weights look alike.

    ## Example
    ```text
    mismatch_causes: {"routing": [0.2, 0.1]}
    rollout_mismatch_kl: 0.01
    ```
    Info at step 1: The token batch does not explain 80% of the log-probability difference. Weight versions or reference
    log-probabilities would separate stale weights from other causes.

    ```text
    mismatch_causes: {"routing": [0.8, 0.1]}
    rollout_mismatch_kl: 0.01
    ```
    No finding.

    ## Known false alarms
    No false alarm is possible: the finding only states that the cause is unknown.

    ## Remedy
    Record weight versions or reference log-probabilities. Set the learning rate to 0 for a few steps: a difference
    that remains is not caused by stale weights. Run one batch with the engine in float32.

    ## Sources
    Derived.
    """
    share = each(unexplained, mismatch_causes)
    return fires(
        (share > rest) & (rollout_gap > warn) & ~(baseline(rollout_gap, 1) < equal),
        "The token batch does not explain {share:.0%} of the log-probability difference. Weight versions or "
        "reference log-probabilities would separate stale weights from other causes.",
        hold=(1, 1),
        share=share,
    )
