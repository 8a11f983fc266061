import math

import numpy as np

from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import (
    Column,
    Trend,
    baseline,
    began,
    best,
    fmin,
    isnan,
    latest,
    moving_sum,
    noise,
    recent_mean,
    total,
    where,
)


@check(
    "LEN001",
    kind="outcome",
    severity="warning",
    confidence="medium",
    explains=("REW009", "REW015", "ENT001", "ENT002", "DIV001", "DIV003", "ADV003", "STL001"),
    invalidates=("checkpoints since step {onset}: responses are almost empty",),
)
def length_collapse(
    step: Column,
    length: Column = any_of("response_length_median", "response_length_mean"),
    reward_mean: Column = None,
    reward_trend: Trend = None,
    meant_trend: Trend = None,
    *,
    collapsed_below_share: float = 0.25,
    shortest: float = 2.0,
    single: float = 1.5,
    ordinary: float = 8.0,
    early_rewards: int = 20,
) -> Fires:
    """Responses have become much shorter than at the start of the run.

    ## What it sees
    The check compares the response length (the median if logged, otherwise the mean) with that of the first row, before
    any update.

    - Severity is **warning** if the length is below a quarter of the first length on 3 of 5 rows. The logarithms of
      the two lengths must differ by more than three standard errors, estimated from the noise of single rows.
    - Severity is **error** if the reward is not near its maximum on 6 of 10 rows. For an error, the reward must also
      have risen by less than half of the smallest detectable gain. If the reward has not fallen and responses still
      have at least 8 tokens, an error also requires 20 recorded rewards.
    - Severity is also **error** if the length is at most 2 tokens, and **critical** if it is at most 1.5 tokens.
    - Severity is **info** if the reward has improved and either the task is solved, or the gain came before the
      collapse and has been kept.

    If the reward components are known, only the gain of components other than formatting counts. The check does not
    judge runs whose responses have fewer than 8 tokens on the first row, because their task requires short answers. The
    onset is the step at which the length fell below 90% of its first value. Once the reward has improved or fallen, the
    onset refers to the smaller of the first length and the length at the best reward.

    ## Thresholds
    - `collapsed_below_share`: ratio of the response length to its first value below which the length counts as
      collapsed.
    - `shortest`: maximum response length, in tokens, at which the severity is error regardless of the reward.
    - `single`: maximum response length, in tokens, at which the severity is critical.
    - `ordinary`: response length on the first row, in tokens, below which the run is not judged.
    - `early_rewards`: minimum number of recorded rewards for severity error if the reward has not fallen and responses
      are not shorter than `ordinary`.

    ## Why it matters
    A policy that writes two or three tokens cannot explore: its responses are identical, groups have zero variance, and
    no gradient leads to longer responses. The collapse is often sudden, and may be complete on the second row.

    ## Example
    ```text
    response_length_mean: 100x4 20x8
    ```
    Warning at step 5: The mean response length fell from 100 to 20 tokens.

    ```text
    response_length_mean: 100x4 70x8
    ```
    No finding.

    ## Known false alarms
    After a temporary dip in length, the finding clears when the length recovers. For example, responses in a healthy
    public run of ShibukiZero/assignment5-alignment shortened from 305 to 30 tokens, and then grew to 400. If the reward
    gains, the policy may only have dropped filler, so the severity stays warning.

    ## Remedy
    Read ten responses first. Then check, in this order: penalties that include the prompt, the set of EOS tokens, and a
    reward for formatting alone. If the policy has collapsed, roll back.

    ## Sources
    Public runs of JuncyLu/trl_DAPO (the length falls from 53 to 2.6 tokens on the second row) and of
    ShibukiZero/assignment5-alignment (from 305 to 14 tokens); BoBaCai/grpo-dual (one-token answers under a penalty over
    the prompt).
    """
    first = baseline(length, 1)
    chance = 3 * math.sqrt(2) * noise(np.log1p(length))
    short = (length < first * fmin(collapsed_below_share, np.exp(-chance))) & (first >= ordinary)
    known = reward_mean == reward_mean
    better = ((reward_trend.lean > 0.5) & ~reward_trend.fallen) | reward_trend.solved
    level = recent_mean(reward_mean)
    at_best = latest(where(level >= best(level), length, np.nan))
    tried = reward_trend.fallen | (total(known) >= early_rewards) | (length < ordinary)
    useless = short & tried & (moving_sum(short & known & ~better, 10) >= 6)
    kept, correct = (trend.best - trend.now < trend.shown for trend in (reward_trend, meant_trend))
    kept = where(isnan(meant_trend.best), kept, correct)
    learnt_first = baseline(where(short, reward_trend.gained, np.nan), 1) > 0
    reached = where((reward_trend.gained | reward_trend.fallen) & (at_best < first), at_best, first)
    return fires(
        short & ~(reward_trend.gained & (reward_trend.solved | (learnt_first & kept))),
        "The mean response length fell from {first:.4g} to {length:.3g} tokens.",
        info=short,
        error=useless | (short & (length <= shortest)),
        critical=short & (length <= single),
        onset=began(short, length < 0.9 * reached, step),
        first=first,
        length=length,
    )
