from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, moving_mean, moving_median


@check("ADV012", severity="warning")
def too_few_live_groups_per_update(
    live_count: Column, *, rows: int = 10, warning_groups: float = 4.0, error_groups: float = 1.0
) -> Fires:
    """Each update uses the signal of too few groups.

    ## What it sees
    Groups whose rewards differ, per step: the median of 10 steps below 4, an error where their mean is below 1.

    ## Thresholds
    - `rows`: rows over which live groups are counted.
    - `warning_groups`: live groups a step, median, below which it is a warning.
    - `error_groups`: live groups a step, mean, below which it is an error.

    ## Why it matters
    The direction of the step is then that of one or two prompts, while Adam still makes a step of full size.

    ## Known false alarms
    A solved task has few live groups left. Trainers that accumulate several rollouts per update count per rollout
    here: multiply by the number of rollouts.

    ## Remedy
    At least 32 / (1 - dead share) prompts per step, or accumulate until 8 live groups are in the update. A rule that
    skips updates must not call `train()` or the scheduler.

    ## Sources
    beita6969/colab-grpo's log: 3 groups of which 82.5 % are dead, 0.53 live groups a step.
    """
    typical, mean = moving_median(live_count, rows), moving_mean(live_count, rows)
    return fires(
        typical < warning_groups,
        "Only {live:.2g} groups per step have differing rewards (mean over the last {rows} steps).",
        error=mean < error_groups,
        live=mean,
        rows=rows,
    )
