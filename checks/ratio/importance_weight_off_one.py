from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, previous


@check("RAT008", kind="defect", severity="warning", confidence="medium", explains=("GRD003", "STL001"))
def importance_weight_off_one(
    rollout_weight_mean: Column,
    rollout_gap: Column,
    reward_gained: Column = None,
    *,
    agree: float = 1e-2,
    off_factor: float = 1.25,
    far_factor: float = 2.0,
    tiny: float = 0.25,
) -> Fires:
    """Importance weights scale the update although rollout engine and trainer agree on every token.

    ## What it sees
    The check applies if trainer and rollout engine agree per token: the KL is below 0.01 nats, or the mean difference
    is below 0.11 nats. The KL is estimated as the mean of exp(x) - 1 - x over tokens (k3), where x is the
    log-probability difference. Severity is **info** if the mean importance weight is outside 0.8 to 1.25 on two
    consecutive rows. Severity is **warning** if the weight is outside 0.5 to 2 on one row. Severity is **error** if the
    weight is below 0.25, unless the reward has improved.

    ## Thresholds
    - `agree`: KL, in nats per token, below which rollout engine and trainer count as agreeing on every token.
    - `off_factor`: factor by which the mean importance weight must differ from 1 on two consecutive rows for severity
      info.
    - `far_factor`: factor by which the mean importance weight must differ from 1 on one row for severity warning.
    - `tiny`: mean importance weight below which the severity is error.

    ## Why it matters
    Under the rollout engine's distribution, the expected weight is exactly 1. Summed over a response of 1,000 tokens,
    differences of 0.001 per token become large factors. A cap or a mask removes the large factors and keeps the small
    factors, so the mean falls. Every gradient is multiplied by the mean weight, and the loss is tiny although the
    policy is fine.

    ## Example
    ```text
    rollout_weight_mean: 0.25
    rollout_logp_diff: 0.01
    ```
    Warning at step 1: The mean importance weight is 0.25 and scales every update, although rollout engine and
    trainer agree (KL 7.9e-05 nats/token).

    ```text
    rollout_weight_mean: 0.98
    rollout_logp_diff: 0.01
    ```
    No finding.

    ## Known false alarms
    In small batches, sequence-level weights vary widely. Some trainers do not correct the mismatch but log the columns
    as 0. No weight can be 0, so the check skips rows with a weight of 0.

    ## Remedy
    Use weights per token, or the mean over the response (as GSPO does), instead of the sum.

    ## Sources
    huggingface/trl#5814 (mean 0.4 to 0.7 at a difference near 0); NVIDIA-NeMo/RL#2269; verl docs/algo/rollout_corr.md
    (mean outside 0.5 to 2); identity E[weight] = 1.
    """
    leaves = (rollout_weight_mean > off_factor) | (rollout_weight_mean < 1 / off_factor)
    beyond = (rollout_weight_mean > far_factor) | (rollout_weight_mean < 1 / far_factor)
    alike = (rollout_gap < agree) & (rollout_weight_mean > 0)  # a weight is an exponential, so 0 is not measured
    shrunk = beyond & alike
    return fires(
        shrunk,
        "The mean importance weight is {weight:.3g} and scales every update, although rollout engine and trainer "
        "agree (KL {gap:.2g} nats/token).",
        hold=(1, 1),
        info=leaves & (previous(leaves) > 0) & alike,
        error=shrunk & (rollout_weight_mean < tiny) & ~reward_gained,
        weight=rollout_weight_mean,
        gap=rollout_gap,
    )
