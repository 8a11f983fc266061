from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.diagnosis.wording import number
from grpo_doctor.series import Column, isnan, previous, where, words


@check("RAT006", severity="warning", explains=("RAT001", "RAT005"))
def staleness_excess(
    step: Column,
    known: Column = any_of("staleness", "optimizer_step", "settings.num_iterations", "settings.async_level"),
    staleness: Column = None,
    optimizer_step: Column = None,
    passes: Column = any_of("settings.num_iterations", optional=True),
    lag: Column = any_of("settings.async_level", "settings.max_staleness", optional=True),
    *,
    updates: float = 16,
    most_passes: float = 4,
    most_lag: float = 8,
) -> Fires:
    """Too many updates use rollouts of an old policy.

    ## What it sees
    The check fires if one of three limits is exceeded on 3 of 5 rows. The limits are 16 recorded optimizer steps per
    rollout step, 4 passes over each rollout (`num_iterations`, `ppo_epochs`), and a queue lag of 8 steps. If the age of
    the samples is recorded, the check uses the age instead of the declared lag, and the declared lag is the limit.

    ## Thresholds
    - `updates`: number of optimizer steps per rollout step above which the check fires.
    - `most_passes`: number of passes over each rollout above which the check fires.
    - `most_lag`: maximum number of steps by which rollouts may be older than the policy.

    ## Why it matters
    Each update moves the policy away from the policy that generated the samples. Clipping limits the effect of each
    token, but not the drift of the policy. In a public sweep, 2 passes of 8 minibatches reached a score of 75%, while
    16 passes over the same batch collapsed within seven steps. In trl#2980, the gradient norm and the clip ratio drift
    after 10,000 steps with `num_iterations` = 4.

    ## Example
    ```text
    settings.num_iterations: 16
    loss: 0x3
    ```
    Warning at step 1: Each rollout is reused for more than 4 passes.

    ```text
    settings.num_iterations: 4
    loss: 0x3
    ```
    No finding.

    ## Known false alarms
    Small learning rates tolerate more updates. The limits are conventions, so exceeding them alone is not a failure.

    ## Remedy
    Use at most two passes, or importance-sampling corrections for asynchronous queues.

    ## Sources
    ShibukiZero/assignment5-alignment (broad_e16_tb256, broad_e2_tb32); huggingface/trl#2980;
    areal-project/AReaL#1388 (staleness beyond its limit after a resume).
    """
    made = (optimizer_step - previous(optimizer_step)) / (step - previous(step))
    limit = where(isnan(lag) | isnan(staleness), most_lag, lag)
    age = where(isnan(staleness), lag, staleness)
    return fires(
        (made > updates) | (passes > most_passes) | (age > limit),
        "{what}",
        what=words(_what, made, updates, passes, most_passes, staleness, limit),
        updates=made,
        passes=passes,
        lag=age,
    )


def _what(made: float, updates: float, passes: float, most_passes: float, age: float, limit: float) -> str:
    if made > updates:
        return f"Each rollout is reused for more than {updates:.0f} updates."
    if passes > most_passes:
        return f"Each rollout is reused for more than {most_passes:.0f} passes."
    if age > limit:
        return f"Samples are {number(age)} updates old when they are used, which exceeds the limit of {number(limit)}."
    return f"Rollouts are more than {limit:.0f} steps older than the policy."
