from grpo_doctor import Fires, check, fires
from grpo_doctor.diagnosis.wording import steps
from grpo_doctor.series import Column, moving_mean, moving_median, previous, words


@check("ADV012", severity="warning")
def too_few_live_groups_per_update(
    live_count: Column,
    step: Column,
    reward_gained: Column = None,
    *,
    rows: int = 10,
    warning_groups: float = 4.0,
    error_groups: float = 1.0,
) -> Fires:
    """Too few groups with differing rewards contribute to each update.

    ## What it sees
    The check counts the groups with differing rewards per step. Severity is warning if the median over 10 steps is
    below 4, and error if the mean is below 1. Once the reward has improved, the severity is one level lower.

    ## Thresholds
    - `rows`: number of rows over which groups with differing rewards are counted.
    - `warning_groups`: median number of groups with differing rewards per step below which the severity is warning.
    - `error_groups`: mean number of groups with differing rewards per step below which the severity is error.

    ## Why it matters
    If fewer than 4 groups have differing rewards, one or two prompts determine the direction of the step, while Adam
    still takes a full-size step.

    ## Example
    ```text
    live_groups: 3x20
    ```
    Warning at step 10: Only 3 groups per step have differing rewards (mean over the last 10 steps).

    ```text
    live_groups: 4x20
    ```
    No finding.

    ## Known false alarms
    A solved task has few groups with differing rewards. The check counts groups per rollout: if the trainer accumulates
    several rollouts per update, multiply the count by the number of rollouts.

    ## Remedy
    Use at least 32 / (1 - share of zero-variance groups) prompts per step, or accumulate until an update has 8 groups
    with differing rewards. Code that skips an update must also skip `train()` and the scheduler step.

    ## Sources
    beita6969/colab-grpo's log: 3 groups per step, 82.5% of them zero-variance, which leaves 0.53 per step.
    """
    typical, mean = moving_median(live_count, rows), moving_mean(live_count, rows)
    return fires(
        ((typical < warning_groups) & ~(reward_gained > 0)) | (mean < error_groups),
        "Only {live:.2g} groups per step have differing rewards (mean over the last {steps}).",
        info=typical < warning_groups,
        error=(mean < error_groups) & ~(reward_gained > 0),
        live=mean,
        steps=words(steps, rows, step - previous(step, rows - 1)),
    )
