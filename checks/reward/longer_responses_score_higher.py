from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, baseline, recent_mean, total


@check("REW019", severity="warning", confidence="medium", explains=("LEN002",))
def longer_responses_score_higher(
    length_reward_correlation: Column,
    response_chars_mean: Column,
    *,
    correlation: float = 0.7,
    steps: int = 10,
    grown: float = 1.5,
) -> Fires:
    """Within each step, longer responses get higher rewards, and responses get longer during the run.

    ## What it sees
    The check correlates reward and length (in characters) over all responses of a step, or over the saved responses.
    The check averages the correlation over ten steps with at least four responses. Severity is **info** if the
    correlation is above 0.7. Severity is **warning** if responses are also at least 1.5 times as long as at the start.

    ## Thresholds
    - `correlation`: correlation of reward and length, -1 to 1, above which the check fires. At 0.7, length explains
      half of the variance of the reward.
    - `steps`: number of steps with saved responses over which the correlation is averaged.
    - `grown`: ratio of the mean length to its first value at or above which the severity is warning.

    ## Why it matters
    A policy finds a bonus for length within a few dozen steps. If length is rewarded, the policy writes longer
    responses without more content, until the limit truncates them.

    ## Example
    ```text
    length_reward_correlation: 0.9x40
    response_chars_mean: 250x20 500x20
    ```
    Warning at step 25: Longer responses score higher. The correlation of reward and length within a step is 0.90,
    and the mean length grew from 250 to 500 characters.

    ```text
    length_reward_correlation: 0.2x40
    response_chars_mean: 250x20 500x20
    ```
    No finding.

    ## Known false alarms
    In some tasks, such as counting and listing, the answer determines the length. The saved responses may have been
    chosen by their reward.

    ## Remedy
    Compare a long and a short response of equal correctness. If the long response scores higher, remove length from the
    reward, or subtract the linear effect of length within each group.

    ## Sources
    arXiv 2310.03716 (length explains most of the gain). rlprobe 0.1, pathology `reward_hack_length`.
    """
    tie, size = length_reward_correlation, response_chars_mean
    mean, first, now = recent_mean(tie, steps), baseline(size), recent_mean(size, steps)
    follows = (mean > correlation) & (total(tie == tie) >= steps)
    return fires(
        follows & (now >= grown * first),
        "Longer responses score higher. The correlation of reward and length within a step is {mean:.2f}, and the "
        "mean length grew from {first:.3g} to {now:.3g} characters.",
        info=follows,
        hold=(1, 1),
        mean=mean,
        first=first,
        now=now,
    )
