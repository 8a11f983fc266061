from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, Trend, recent_mean


@check("DIV001", severity="warning", explains=("ADV003", "ADV012"))
def within_group_duplicates(
    unique_rate: Column,
    reward_mean: Column = None,
    reward_trend: Trend = None,
    temperature: Column = None,
    *,
    warn: float = 0.5,
    bad: float = 0.25,
) -> Fires:
    """Most responses are duplicates, without a gain in reward.

    ## What it sees
    Over 5 rows, the check averages the ratio of distinct responses to all responses of a step. Severity is warning if
    the ratio is below 0.5 on 10 of 15 rows, and error if the ratio is below 0.25. The check is silent while the reward
    improves or is near its maximum. Without a recorded reward, the severity stays warning. The ratio covers all
    responses of a step, not single groups.

    ## Thresholds
    - `warn`: distinct responses divided by all responses, 0 to 1, below which the severity is warning.
    - `bad`: distinct responses divided by all responses, 0 to 1, below which the severity is error.

    ## Why it matters
    Duplicates get equal rewards, so a group of duplicates has no advantage and no gradient. The rollouts of such groups
    are wasted.

    ## Example
    ```text
    unique_rate: 0.2x16
    ```
    Warning at step 5: Only 20% of the responses are distinct.

    ```text
    unique_rate: 0.9x16
    ```
    No finding.

    ## Known false alarms
    Healthy runs on small tasks may end with a ratio of 0.18 to 0.25. Short answers, and batches that contain the same
    prompt twice, also lower the ratio.

    ## Remedy
    Sample at temperature 1 first. Then filter out prompts whose responses all get the same reward. Finally, use an
    entropy target.

    ## Sources
    Healthy runs of the engine (`grpo-doctor run`), which end with few different responses; DAPO (arXiv 2503.14476).
    """
    share = recent_mean(unique_rate)
    better = (reward_trend.gained & ~reward_trend.fallen) | reward_trend.solved
    return fires(
        (share < warn) & ~better,
        "Only {share:.0%} of the responses are distinct.",
        hold=(10, 15),
        error=(share < bad) & ~better & (reward_mean == reward_mean),
        share=share,
        temperature=temperature,
    )
