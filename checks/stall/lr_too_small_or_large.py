from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column, moving_max, moving_median, previous, recent_mean, where


@check(
    "STL003",
    severity="warning",
    explains=(
        *("STL001", "STL006", "REW009", "REW015", "KL001", "KL002", "ENT001", "ENT003", "DIV004"),
        *("GRD005", "LEN001", "LEN002", "LEN003", "SHP001"),
    ),
)
def lr_too_small_or_large(
    policy_movement_kl: Column,
    learning_rate: Column = None,
    dead_share: Column = None,
    mismatch: Column = any_of("rollout_mismatch_raw_kl", "rollout_mismatch_kl", optional=True),
    *,
    rows: int = 5,
    warning_nats: float = 0.05,
    torn: float = 0.5,
    still_nats: float = 1e-7,
    other: float = 1e-2,
) -> Fires:
    """The learning rate is too high or too low: one update moves the policy too far or not at all.

    ## What it sees
    The check uses `policy_movement_kl`, the KL between the policy before and after an update, on the policy's own
    samples. The KL is estimated as the mean of exp(x) - 1 - x over tokens (k3), where x is the log-probability
    difference. **Too far** (warning): the median movement of 5 updates is above 0.05 nats per token (**error** above
    0.5). The movement does not count if rollout engine and trainer differ by more than 0.01 nats per token. Such
    samples do not come from the policy. **Not at all** (warning): the largest movement of 5 updates is below 1e-7 nats,
    a hundredth of the smallest healthy update. In addition, the learning rate must be neither 0 nor still rising, and
    fewer than 90% of the groups must have zero variance. The check judges the movement, not the learning rate: 4e-5 is
    suitable for one model, and 1e-6 is too high for another. LoRA needs a learning rate ten times as high as full
    fine-tuning.

    ## Thresholds
    - `rows`: number of updates over which the median and the maximum of the movement are computed.
    - `warning_nats`: movement of the policy by one update, in nats per token, above which the severity is warning.
    - `torn`: movement of the policy by one update, in nats per token, above which the severity is error.
    - `still_nats`: movement, in nats per token, below which an update counts as having no effect.
    - `other`: mismatch between rollout engine and trainer, in nats per token, above which the check ignores large
      movements.

    ## Why it matters
    An update that moves the policy by half a nat per token leaves the region in which its gradient is valid. The policy
    is destroyed within a few steps and does not recover when the learning rate is lowered. A run whose learning rate
    has no effect costs as much as a run that learns.

    ## Example
    ```text
    policy_movement_kl: 0.5x9
    ```
    Warning at step 5: One update moves the policy by 0.5 nats/token: the step is too large.

    ```text
    policy_movement_kl: 0.005x9
    ```
    No finding.

    ## Known false alarms
    After a change in the template, the first updates may be large, because the policy adapts. If the rollout engine's
    log-probabilities are not recorded, the movement may be measured on tokens that the policy did not sample.

    ## Remedy
    Use a learning rate of 5e-7 to 3e-6 for full fine-tuning and 5e-6 to 5e-5 for LoRA (TRL: 1e-6 and 1e-5). Small
    models need higher learning rates. After updates that were too large, roll back to a healthy checkpoint.

    ## Sources
    Faults `lr-too-high` and `lr-too-low` of the engine against its healthy runs. TRL, verl and OpenRLHF use a default
    learning rate of 1e-6.
    """
    usual, largest = moving_median(policy_movement_kl, rows), moving_max(policy_movement_kl, rows)
    foreign = recent_mean(abs(mismatch), rows) > other
    too_far = (usual > warning_nats) & ~foreign
    rising = learning_rate > previous(learning_rate)
    nothing = (largest < still_nats) & ~(learning_rate == 0) & ~rising & ~(dead_share >= 0.9)
    return fires(
        too_far | nothing,
        "One update moves the policy by {moved:.2g} nats/token: the step is {what}.",
        error=(usual > torn) & ~foreign,
        too_low=nothing & ~too_far,
        moved=usual,
        what=where(too_far, "too large", "too small to learn"),
        learning_rate=learning_rate,
    )
