import math

from grpo_doctor import Fires, check, fires, once_known
from grpo_doctor.series import Column, fmax, previous, total, where

_WHY = "the policy barely changed between the healthy and the collapsed rollout"


@check(
    "UPD004",
    kind="defect",
    severity="error",
    confidence="medium",
    explains=("DIV004", "REW009", "REW015"),
    withholds={
        "lower-learning-rate": _WHY,
        "raise-group-size": _WHY,
        "drop-std-normalisation": _WHY,
    },
)
def collapse_larger_than_policy_movement(
    invalid_rate: Column,
    step: Column,
    movement: Column = once_known("policy_movement_kl"),
    *,
    drop: float = 0.5,
    small_nats: float = 0.01,
    least_steps: int = 3,
) -> Fires:
    """The output collapses within one step although the policy barely changed.

    ## What it sees
    The check counts steps on which the share of invalid responses is at least 50 percentage points higher than on the
    step before. The update between the two steps must have moved the policy by less than 0.01 nats per token. The
    movement is `policy_movement_kl`, measured on the policy's own samples. The check fires at the third counted step. A
    step without a recorded movement does not count.

    ## Thresholds
    - `drop`: minimum increase in the share of invalid responses in one step, 0 to 1.
    - `small_nats`: movement of the policy, in nats per token, below which the movement cannot explain the change.
    - `least_steps`: number of counted steps at or above which the check fires.

    ## Why it matters
    Nearly equal policies generate nearly equal text. The cause must therefore be between policy and text: the
    generation mode, the cache, the engine's weights, the prompt, or the logits processors.

    ## Example
    ```text
    valid_rate: 1 0 1 0 1 0
    policy_movement_kl: 0.001x6
    ```
    Error at step 6: A further 100% of the responses became invalid in one step (3 times so far). The previous
    update moved the policy by only 0.001 nats/token.

    ```text
    valid_rate: 1 0.9 1 0.9 1 0.9
    policy_movement_kl: 0.001x6
    ```
    No finding.

    ## Known false alarms
    The tasks of successive batches may have very different shares of valid responses.

    ## Remedy
    Test the generator with the probes GEN001, GEN002 and PAD001. Do not change the optimisation.

    ## Sources
    Fault `train-mode-generation` of the engine: generation in train mode makes nearly every rollout after an update
    invalid while the first update has learning rate 0.
    """
    before = where(step - previous(step) == 1, previous(movement), math.nan)
    jump = (invalid_rate - previous(invalid_rate) >= drop) & (before < small_nats)
    times = total(jump)
    return fires(
        jump & (times >= least_steps),
        "A further {rise:.0%} of the responses became invalid in one step ({times} times so far). The "
        "previous update moved the policy by only {moved:.2g} nats/token.",
        hold=(1, 1),
        rise=invalid_rate - previous(invalid_rate),
        times=times,
        moved=fmax(before, 0.0),
    )
