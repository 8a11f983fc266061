from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, Trend, baseline, total


@check("STL009", vital=True, kind="remark", severity="info", confidence="medium")
def no_gain_since(
    step: Column,
    reward_mean: Column,
    reward_trend: Trend,
    *,
    rewards: int = 40,
    share: float = 0.6,
) -> Fires:
    """The reward rose early and then reached a plateau for most of the run.

    ## What it sees
    The check starts at the 40th reward. The check fires if the reward has improved, has neither fallen nor reached its
    maximum, and has a plateau that covers 60% of the steps. On a plateau, the second half is not above the first half.
    In addition, no window is clearly below the level of the last quarter of the run.

    ## Thresholds
    - `rewards`: number of rewards before which a plateau cannot be distinguished from a slow gain.
    - `share`: minimum share of the steps, 0 to 1, that the plateau must cover. Below this share, the run has learned
      for about as long as it has been flat.

    ## Why it matters
    The steps on the plateau cost as much as the earlier steps and did not improve the reward. Keep the checkpoint from
    the start of the plateau, unless a held-out score shows otherwise.

    ## Example
    ```text
    reward_mean: 0.2->0.6x40 0.6x160
    ```
    Info at step 55: Since step 55, for 73% of the run, the reward has not risen (0.6 now; smallest detectable gain:
    0.011).

    ```text
    reward_mean: 0.2->0.6x200
    ```
    No finding.

    ## Known false alarms
    A gain may be too small to be distinguished from noise. The held-out score or the response length may still improve
    at the same reward.

    ## Remedy
    Stop at the start of the plateau, or change the setting that limits the run. Use prompts that the model solves some
    of the time (10% to 90%), a larger upper clip bound, or a higher final learning rate.

    ## Sources
    arXiv 2505.22617 (73% of the entropy and 76% of the gain are used in the first 200 of 2400 steps).
    """
    begun = baseline(step, 1)
    part = (step - reward_trend.settled) / (step - begun)
    known = total(reward_mean == reward_mean)
    return fires(
        (known >= rewards) & (part >= share) & ~reward_trend.fallen,
        "Since step {since:.0f}, for {part:.0%} of the run, the reward has not risen ({now:.3g} now; smallest "
        "detectable gain: {shown:.2g}).",
        hold=(1, 1),
        clear=1,
        onset=reward_trend.settled,
        since=reward_trend.settled,
        part=part,
        now=reward_trend.now,
        shown=reward_trend.shown,
    )
