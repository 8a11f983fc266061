import numpy as np

from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.diagnosis.wording import number
from grpo_doctor.series import (
    Column,
    Trend,
    baseline,
    best,
    gained,
    moving_mean,
    previous,
    row,
    sqrt,
    total,
    where,
    words,
)


@check("REW003", severity="warning", confidence="medium", explains=("REW002", "LEN002"))
def length_or_format_driven_reward(
    reward_mean: Column,
    reward_trend: Trend,
    step: Column,
    known: Column = any_of("response_length_mean", "response_length_median", "reward_meant", "success_rate"),
    length: Column = any_of("response_length_mean", "response_length_median", optional=True),
    reward_meant: Column = None,
    meant_trend: Trend = None,
    success_rate: Column = None,
    success_trend: Trend = None,
    *,
    rows: int = 30,
    explained_share: float = 0.5,
    tiny: float = 1e-9,
    early_rows: int = 20,
    meant_share: float = 1 / 3,
    done_share: float = 0.8,
    success_room: float = 0.1,
    success_floor: float = 0.05,
) -> Fires:
    """The reward gain comes from response length or formatting alone.

    ## What it sees
    **Formatting**: the reward has improved, but components other than formatting can account for less than a third of
    the gain. Formatting components (format, tags, length, penalties) are recognised by name. The other components have
    not improved, and noise cannot hide a sufficient gain. The other components must also be below 80% of their best
    row, so that they have room to improve. The finding is an outcome, because there is no evidence that the policy
    learned the task.

    **Success**: the reward has improved, but the gain of the success rate, even with noise, is below a tenth of the
    possible rise. The success rate must have started below 0.8. A finding about the success rate is also an outcome.
    REW002 reports a success rate that has fallen or never exceeded 0.05.

    **Length**: the check correlates the row-to-row **changes** in mean reward and mean response length over the last 30
    rows that record both. The check fires if longer responses get more reward, the squared correlation is above 0.5,
    and reward and length have grown since the start. The check does not compare levels, because two rising series
    always correlate in levels. The check does not report a negative correlation, which is normal in healthy runs in
    which wrong answers run to the limit. In two healthy runs with a negative correlation, the squared correlation is
    0.64 and 0.69. The onset is the first row of the first window for which the check fires.

    ## Thresholds
    - `rows`: number of rows over which changes are correlated.
    - `explained_share`: squared correlation, 0 to 1, above which the check fires.
    - `tiny`: variance divided by the squared mean, below which changes count as rounding.
    - `early_rows`: number of rewards before which the check does not judge formatting.
    - `meant_share`: share of the gain, 0 to 1, up to which correctness counts as having contributed too little. The
      following values were measured on 40 public runs with both kinds of components and a rising reward. In each
      healthy run, the share plus its noise is at least 0.75. In each run that learned only formatting, the share plus
      its noise is at most 0.32.
    - `done_share`: level of a component as a share of its best row, or success rate, at or above which too little is
      left to learn.
    - `success_room`: share of the possible increase in the success rate, 0 to 1, below which the success rate counts as
      unchanged.
    - `success_floor`: success rate, 0 to 1, up to which REW002 reports the problem instead.

    ## Why it matters
    A reward for length alone reproduces most of the gain that RLHF gets from a learned reward model. A policy finds a
    bonus for length within a few dozen steps. With a bonus for length, the share of valid responses falls, while the
    reward keeps rising until the limit truncates every response.

    ## Example
    ```text
    reward_mean: 0.2x20 1x20
    success_rate: 0.1x40
    ```
    Warning at step 21: The reward rose from 0.2 to 1, but the success rate did not: 0.1 at the start, 0.1 now.

    ```text
    reward_mean: 0.2x20 1x20
    success_rate: 0.1x20 0.6x20
    ```
    No finding.

    ## Known false alarms
    A short run may learn formatting before content. The name of a formatting component may not indicate formatting.

    In some tasks, such as counting and listing, the answer determines the length. A graded reward may give a longer
    answer more points. With 30 rows, a squared correlation of 0.5 occurs by chance in fewer than 1 of 10,000 windows.

    ## Remedy
    Reward length only for correct answers, and penalise only lengths near the limit. If only formatting is learned,
    lower the weight of formatting once nearly all responses are well-formed. Make the task easier, or grade the reward,
    until some answers get a reward.

    ## Sources
    arXiv 2310.03716 (length explains most of the gain). Fault `length-bonus` of the engine. holazzer/nb,
    Qwen2.5_(3B)-GRPO.ipynb: the reward doubles because of its tags, while correctness stays at 0.3.
    """
    reward_step, length_step = reward_mean - previous(reward_mean), length - previous(length)
    mean_reward, mean_length = moving_mean(reward_step, rows), moving_mean(length_step, rows)
    together = moving_mean(reward_step * length_step, rows) - mean_reward * mean_length
    reward_var = moving_mean(reward_step**2, rows) - mean_reward**2
    length_var = moving_mean(length_step**2, rows) - mean_length**2
    moves = (reward_var > tiny * mean_reward**2) & (length_var > tiny * mean_length**2)  # else only rounding remains
    correlation = together / sqrt(where(moves, reward_var * length_var, np.nan))
    driven = reward_trend.gained & gained(length) & (correlation > sqrt(explained_share))
    room = (best(reward_meant) > 0) & (meant_trend.now < done_share * best(reward_meant)) & ~meant_trend.solved
    little = meant_trend.possible_gain < meant_share * reward_trend.gain
    form = reward_trend.gained & ~meant_trend.gained & room & little & (row(reward_mean) >= early_rows)
    success = success_trend
    slow = (success.possible_gain < success_room * (1 - success.first)) & (success.first < done_share)
    apart = slow & ~success.gained & (best(success_rate) > success_floor) & ~success.fallen
    apart = apart & reward_trend.gained & (total(success_rate == success_rate) >= early_rows)
    first, now = where(apart, success.first, meant_trend.first), where(apart, success.now, meant_trend.now)
    return fires(
        driven | form | apart,
        "{what}.",
        hold=(5, 8),
        suffered=form | apart,
        onset=where(form | apart, reward_trend.since, baseline(where(driven, previous(step, rows), np.nan), 1)),
        what=words(_what, form, apart, correlation**2, rows, reward_trend.first, reward_trend.now, first, now),
        explained=correlation**2,
        form=form | apart,
    )


def _what(
    form: bool,
    apart: bool,
    explained: float,
    rows: int,
    first: float,
    now: float,
    meant_first: float,
    meant_now: float,
) -> str:
    if apart:
        return (
            f"The reward rose from {number(first)} to {number(now)}, but the success rate did not: "
            f"{number(meant_first)} at the start, {number(meant_now)} now"
        )
    if not form:
        return f"Changes in response length explain {explained:.0%} of the reward changes over {rows:.0f} steps"
    return (
        f"The reward rose from {number(first)} to {number(now)} through formatting alone: "
        f"the other components changed from {number(meant_first)} to {number(meant_now)}"
    )
