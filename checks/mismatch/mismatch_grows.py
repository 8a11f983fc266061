from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, baseline, kendall_tau, moving_median, where
from grpo_doctor.series.mismatch_parts import unchanged


@check(
    "MIS015",
    severity="warning",
    confidence="medium",
    invalidates=("importance weights since step {onset}: they measure the engine's lag",),
)
def mismatch_grows(
    rollout_gap: Column,
    learning_rate: Column = None,
    *,
    times: float = 4.0,
    least: float = 5e-4,
    tau: float = 0.7,
    rows: int = 12,
) -> Fires:
    """The difference between rollout engine and trainer grows steadily, although it is still small.

    ## What it sees
    The check uses the KL between trainer and rollout engine, as recorded or estimated from the mean log-probability
    difference. A recorded KL is the mean of exp(x) - 1 - x over tokens (k3), where x is the log-probability difference.
    The check fires on 2 of 3 rows if the median over 5 rows is above 5e-4 nats per token. The median must also be more
    than 4 times the first level. In addition, the KL must rise almost steadily over the last 12 rows (Kendall's tau of
    at least 0.7).

    ## Thresholds
    - `times`: ratio of the KL to its first level above which the KL counts as grown; at 4, the mean log-probability
      difference has doubled.
    - `least`: KL, in nats per token, above which growth is reported.
    - `tau`: minimum Kendall's tau between the KL and the row number, -1 to 1, at which the KL counts as rising
      steadily.
    - `rows`: number of rows over which Kendall's tau is computed.

    ## Why it matters
    Rounding differences rise and fall with the policy's certainty. A difference that only grows depends on the updates:
    an adapter never reaches the engine, weights arrive late, or the numerics of the engine drift. If the difference
    continues to grow, RAT004 and GEN002 fire. A small difference is harmless.

    ## Example
    ```text
    rollout_mismatch_kl: 0.0001x5 0.0002 0.0003 0.0004 0.0005 0.0006 0.0007 0.0008 0.0009
    ```
    Warning at step 12: The difference between rollout engine and trainer has grown from 0.0001 to 0.0007 nats/token and
    keeps growing. The engine's weights lag, or its numerics drift.

    ```text
    rollout_mismatch_kl: 0.0006x20
    ```
    No finding.

    ## Known false alarms
    If a policy becomes less certain with every step, for example under a large entropy bonus, rounding differences also
    grow.

    ## Remedy
    Compare a checksum of one layer on both sides after a transfer. If the checksums are equal, run a few steps at a
    learning rate of 0. At a learning rate of 0, a difference caused by lag stops growing, but a difference caused by
    drift does not.

    ## Sources
    vllm-project/vime#64 (mean difference 0.011 to 0.036 over 30 steps with one engine, 0.011 throughout with another);
    public notes on verl with an adapter that stayed in the trainer (k1 0.0003 to 0.0034 over 7 transfers, and 0.0003
    once it reached the engine); allenai/open-instruct#1473 (growth at a learning rate of 0).
    """
    first, now = baseline(rollout_gap), moving_median(rollout_gap, 5)
    grows = (now > times * first) & (now > least) & (kendall_tau(rollout_gap, rows) >= tau)
    return fires(
        grows,
        "The difference between rollout engine and trainer has grown from {first:.3g} to {now:.3g} nats/token and "
        "keeps growing. {why}.",
        hold=(2, 3),
        first=first,
        now=now,
        why=where(
            unchanged(learning_rate),
            "The learning rate is 0, so the weights cannot be stale: the engine's numerics drift",
            "The engine's weights lag, or its numerics drift",
        ),
    )
