from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column, Trend, lowest, row, where


@check(
    "REW009",
    kind="outcome",
    severity="warning",
    confidence="medium",
    explains=("REW001", "ADV003", "ADV012", "STL001", "GRD003", "REW015"),
    invalidates=("checkpoints saved since step {onset}",),
    about=("reward_mean", "success_rate"),
)
def reward_collapse(
    series: Column = any_of("reward_mean", "success_rate"),
    reward_mean: Column = None,
    success_rate: Column = None,
    reward_trend: Trend = None,
    success_trend: Trend = None,
    *,
    floor_share: float = 0.1,
    early_rows: int = 16,
    few: float = 0.1,
) -> Fires:
    """The reward or the success rate has fallen from its best level.

    ## What it sees
    The check uses the trajectory of the reward, or otherwise of the success rate. The check fires if the last window is
    below the best window by more than noise explains. The critical value accounts for a test after every row. Severity
    is **warning** if the metric has lost 15% of its best level and a quarter of the range that it has covered. Severity
    is **error** if the metric has lost 30% of its best level and half of its range. Severity is **critical** if the
    metric is at most a tenth of its range above its lowest value in the run. For rewards below 0, only the share of
    the range counts. A fall from -4 to -5 is as large as a fall from 1 to 0. The onset is the change point of a
    least-squares fit of two levels to the rewards since the best window.

    ## Thresholds
    - `floor_share`: share of the range above the lowest reward, 0 to 1, within which the finding is critical.
    - `early_rows`: number of rows before which a decrease in the success rate alone is not reported (twice the 8 rows
      that the first trend needs).
    - `few`: best success rate, 0 to 1, up to which a decrease in the success rate is too small to judge.

    ## Why it matters
    Whatever the cause, most failing runs lose their reward. Entropy is often flat or rising, so checks of entropy miss
    the collapse. Once every reward is equal, no group has a gradient, so the run does not recover by itself.

    ## Example
    ```text
    reward_mean: 0.1->0.6x20 0.6x15 0.1x30
    ```
    Critical at step 36: The reward fell from 0.6 to 0.1 at step 36.

    ```text
    reward_mean: 0.1->0.6x20 0.6x45
    ```
    No finding.

    ## Known false alarms
    A curriculum that moves to hard prompts also lowers the reward. For the rate of false alarms in simulations, see
    `benchmarks/trajectory.md`.

    ## Remedy
    Find the cause first: findings that explain REW009 come before it in the report. Then roll back to a checkpoint
    before the onset and reset the optimizer state. A policy at its minimum reward has no gradient from which to
    recover.

    ## Sources
    Public runs of ShibukiZero/assignment5-alignment: the reward is 0 from step 137 of 200 without a clip, from step
    196 (after NaN at step 195) with a clip, and from about step 7 in broad_e16_tb256.
    """
    late = row(series) >= early_rows
    other = ~(reward_trend.fallen > 0) & (success_trend.fallen > 0) & (success_trend.best > few) & late
    floor = where(other, lowest(success_rate), lowest(reward_mean))
    best, now = where(other, success_trend.best, reward_trend.best), where(other, success_trend.now, reward_trend.now)
    since = where(other, success_trend.since, reward_trend.since)
    lost = where(other, success_trend.lost, reward_trend.lost) > 0
    return fires(
        (reward_trend.fallen > 0) | other,
        "The {what} fell from {best:.3g} to {now:.3g} at step {since:.0f}.",
        error=lost,
        critical=lost & (now - floor <= floor_share * (best - floor)),
        hold=(1, 1),
        clear=1,
        onset=since,
        what=where(other, "success rate", "reward"),
        best=best,
        now=now,
        floor=floor,
        since=since,
    )
