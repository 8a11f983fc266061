from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, moving_mean, noise, previous, where

NOW, BEFORE = 10, 20
"""Number of recent rows, and number of rows before them that form the baseline."""


@check("EWS001", severity="info")
def early_warning(
    reward_mean: Column,
    reward_std: Column = None,
    dead_share: Column = None,
    entropy_mean: Column = None,
    rollout_mismatch_kl: Column = None,
    grad_norm: Column = None,
    unique_rate: Column = None,
    *,
    moved_sigmas: float = 2.0,
    least_moved: int = 3,
) -> Fires:
    """Several early indicators of a collapse have moved at the same time.

    ## What it sees
    The check compares the mean of each indicator over the last 10 rows with its mean over the previous 20 rows. An
    indicator has moved if its mean changed by more than 2 standard deviations of the noise from row to row. Reward
    spread, entropy and distinct responses count as moved if they fall. Zero-variance groups, the mismatch between
    rollout engine and trainer, and the gradient norm count as moved if they rise. Severity is info if at least three of
    the six indicators have moved and the reward does not rise. Severity is warning if the reward also falls by more
    than 2 standard deviations of its noise. The condition must be true on 3 of 5 rows.

    ## Thresholds
    - `moved_sigmas`: change, in standard deviations of the noise from row to row, above which an indicator counts as
      moved.
    - `least_moved`: minimum number of indicators that must have moved.

    ## Why it matters
    Early indicators move ten to fifty steps before a collapse, early enough to save a checkpoint or lower the learning
    rate.

    ## Example
    ```text
    reward_mean: 0.5x30 0.2x12
    reward_std: 0.4x30 0.1x12
    zero_variance_share: 0.1x30 0.6x12
    entropy_mean: 0.8x30 0.4x12
    ```
    Warning at step 31: 3 of 6 early indicators of a collapse have moved, and the reward has changed by -42 standard
    deviations of its noise.

    ```text
    reward_mean: 0.5x30 0.8x12
    reward_std: 0.4x30 0.1x12
    zero_variance_share: 0.1x30 0.6x12
    entropy_mean: 0.8x30 0.4x12
    ```
    No finding.

    ## Known false alarms
    Convergence also moves three of the indicators in these directions, so the check requires that the reward does not
    rise. The lead time of ten to fifty steps is a heuristic.

    ## Remedy
    Save a checkpoint now. Then find the indicator that changed earliest. If it is the mismatch or the gradient norm,
    check the update. If it is entropy or distinct responses, check the policy. If it is the share of zero-variance
    groups, check the data.

    ## Sources
    RAGEN (arXiv 2504.20073: reward spread falls before the mean; gradient spikes mark the point of no return).
    """
    falling = (reward_std, entropy_mean, unique_rate)
    rising = (dead_share, rollout_mismatch_kl, grad_norm)
    moved = sum((where(_move(x) < -moved_sigmas, 1, 0) for x in falling), start=0)
    moved = moved + sum((where(_move(x) > moved_sigmas, 1, 0) for x in rising), start=0)
    reward = _move(reward_mean)
    several = (moved >= least_moved) & (reward < 1)
    return fires(
        several,
        "{moved} of 6 early indicators of a collapse have moved, and the reward has changed by {reward:+.2g} standard "
        "deviations of its noise.",
        warning=several & (reward < -moved_sigmas),
        moved=moved,
        reward=reward,
    )


def _move(x: Column) -> Column:
    """Return the difference between the recent mean and the baseline mean, in standard deviations of the noise from row
    to row."""
    return (moving_mean(x, NOW) - moving_mean(previous(x, NOW), BEFORE)) / noise(x)
