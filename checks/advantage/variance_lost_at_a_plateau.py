from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, Trend, baseline, recent_mean


@check("ADV016", severity="warning", confidence="medium", about=("reward_mean",))
def variance_lost_at_a_plateau(
    dead_share: Column,
    reward_trend: Trend,
    success_solved: Column = None,
    meant_solved: Column = None,
    *,
    rows: int = 10,
    once: float = 0.5,
    most: float = 0.7,
    nearly_all: float = 0.85,
) -> Fires:
    """Most groups lost their reward variance during the run, and the reward has plateaued.

    ## What it sees
    The check averages the share of zero-variance groups (all rewards equal) over 10 rows. The check fires if the share
    is above 70% after starting below 50%, in a run whose reward has improved and then settled. Severity is **info**.
    Above 85%, the severity is **warning** if neither the success rate nor the reward components other than formatting
    are near their maximum.

    ## Thresholds
    - `rows`: number of rows over which the share of zero-variance groups is averaged.
    - `once`: share of zero-variance groups, 0 to 1, below which the run must start.
    - `most`: share of zero-variance groups, 0 to 1, above which the severity is info.
    - `nearly_all`: share of zero-variance groups, 0 to 1, above which the severity is warning; at 0.85, one group in
      seven still has a signal.

    ## Why it matters
    The advantages of a zero-variance group are 0. A zero-variance group costs as much as any other group but does not
    train the policy. Zero-variance groups therefore make the effective batch smaller.

    ## Example
    ```text
    zero_variance_share: 0.1x60 0.9x140
    reward_mean: 0.2->0.5x40 0.5x160
    ```
    Warning at step 55: 90% of the groups have identical rewards (10% at the start), and the reward has plateaued at
    0.5 since step 55.

    ```text
    zero_variance_share: 0.1x60 0.5x140
    reward_mean: 0.2->0.5x40 0.5x160
    ```
    No finding.

    ## Known false alarms
    The check also fires on a solved task whose reward scale is unknown.

    ## Remedy
    Use prompts that the model solves some of the time (10% to 90%). Filter zero-variance groups and sample again
    (dynamic sampling), or move on to harder prompts.

    ## Sources
    DAPO, arXiv 2503.14476. rldoctor 0.2, scenario `saturated_groups`; rlprobe 0.1, pathologies `reward_std_death` and
    `degenerate_groups`.
    """
    first, now = baseline(dead_share), recent_mean(dead_share, rows)
    lost = (first < once) & (now > most) & (reward_trend.settled == reward_trend.settled)
    return fires(
        lost & (now > nearly_all) & ~success_solved & ~meant_solved,
        "{now:.0%} of the groups have identical rewards ({first:.0%} at the start), and the reward has plateaued at "
        "{reward:.3g} since step {since:.0f}.",
        info=lost,
        onset=reward_trend.settled,
        now=now,
        first=first,
        since=reward_trend.settled,
        reward=reward_trend.now,
    )
