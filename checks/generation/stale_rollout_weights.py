from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column, baseline, moving_median, previous
from grpo_doctor.series.mismatch_parts import sudden, unchanged


@check(
    "GEN002",
    kind="defect",
    severity="error",
    confidence="medium",
    explains=("RAT004", "RAT005", "MIS015", "KL001", "KL002", "STL001", "REW009", "REW015", "DIV004", "GRD002"),
    withholds={
        "lower-learning-rate": "the rollouts come from stale weights; a lower learning rate only delays the divergence",
        "raise-group-size": "more responses from a stale policy do not help",
    },
    invalidates=("updates since step {onset}: their samples come from an older policy",),
)
def stale_rollout_weights(
    mismatch: Column = any_of("rollout_mismatch_raw_kl", "rollout_gap"),
    generation_training_mode: Column = None,
    generation_checkpointing: Column = None,
    learning_rate: Column = None,
    step: Column = None,
    *,
    equal: float = 2e-3,
    bad: float = 1e-2,
    times: float = 3.0,
    rows: int = 10,
) -> Fires:
    """The rollout engine uses stale weights: its mismatch with the trainer grows with every update.

    ## What it sees
    The check uses the KL between trainer and rollout engine, computed from raw logits or, if these are missing, from
    final scores. The KL is estimated as the mean of exp(x) - 1 - x over tokens (k3), where x is the log-probability
    difference. The check fires if this KL is above 0.01 but was below 0.002 on the first row, before any update.
    Rounding in bf16 can explain a KL below 0.002. In addition, the median KL over 5 rows must have tripled within 10
    rows, or be above 0.03 (15 times the limit for the first row). Stale weights cannot explain growth of more than 1
    nat in one step, or growth at a learning rate of 0. Rows whose responses were generated in train mode with gradient
    checkpointing are skipped (GEN001). The condition must be true on 3 of 5 rows.

    ## Thresholds
    - `equal`: KL on the first row (nats per token) below which rollout engine and trainer count as having started with
      equal weights.
    - `bad`: KL (nats per token) above which the weights count as different.
    - `times`: ratio of the KL to its value `rows` rows ago above which the KL counts as growing.
    - `rows`: number of rows within which the KL must have grown.

    ## Why it matters
    The loss treats samples of an old policy as if the current policy had drawn them. The policy drifts away from the
    samples, so the reward stays flat while KL and gradient norm grow.

    ## Example
    ```text
    rollout_mismatch_raw_kl: 0x3 0.031x5
    ```
    Error at step 6: The rollout engine and the trainer agreed on the first row and now differ by 0.031 nats/token.
    The rollout engine uses stale weights.

    ```text
    rollout_mismatch_raw_kl: 0.001x8
    ```
    No finding.

    ## Known false alarms
    Asynchronous training with a constant lag has a constant mismatch instead of a growing one. Quantised engines
    already disagree on the first row and are not judged.

    ## Remedy
    Synchronise the weights after every update, and use a canary prompt to verify the transfer. Merge the adapter before
    the transfer.

    ## Sources
    Fault `stale-rollout-weights` of the engine; NeMo-RL#2631, vllm#29341, trl#5312, verl-omni#552, ms-swift#9855.
    """
    broken_mode = (generation_training_mode == 1) & (generation_checkpointing == 1)
    now = moving_median(abs(mismatch), 5)
    grown = (now > times * previous(now, rows)) | (now > 15 * equal)
    began = baseline(abs(mismatch), 1)
    return fires(
        (began < equal)
        & (now > bad)
        & grown
        & (abs(mismatch) > bad)
        & ~sudden(mismatch, step)
        & ~unchanged(learning_rate)
        & ~broken_mode,
        "The rollout engine and the trainer agreed on the first row and now differ by {now:.3g} nats/token. The "
        "rollout engine uses stale weights.",
        now=now,
        first=began,
    )
