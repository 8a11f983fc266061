import math

import numpy as np

from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, Trend, baseline, began, best, latest, noise, recent_mean, total, where

REACH = ", and more responses reach the length limit"


@check(
    "LEN002",
    kind="outcome",
    severity="warning",
    confidence="medium",
    explains=("LEN003", "REW009", "REW015", "DIV004", "STL001"),
    invalidates=("since step {onset}, rewards of responses that were truncated before their answer",),
)
def length_explosion(
    response_length_mean: Column,
    step: Column,
    cut_share: Column = None,
    reward_mean: Column = None,
    reward_trend: Trend = None,
    invalid_rate: Column = None,
    max_new_tokens: Column = None,
    *,
    grown_factor: float = 2.0,
    since_best: float = 1.5,
    cut_rise: float = 0.15,
    limit_share: float = 0.75,
    invalid_rise: float = 0.3,
    early_rewards: int = 20,
) -> Fires:
    """Responses grow towards the length limit without a reward gain.

    ## What it sees
    The mean response length of the last 5 rows must be more than twice that of the first row. The logarithms of the two
    lengths must differ by more than three standard errors, estimated from the noise of single rows. The margin for
    noise excludes a first row that is short by chance, as in a small batch. Responses count as reaching the limit if
    the share of truncated responses rose by 0.15, or the mean length exceeds 75% of `max_new_tokens`. Severity is
    warning if responses reach the limit. Severity is error in three cases. First, the reward has fallen from its best
    level, and responses are at least 1.5 times as long as at the best reward. The first case is excluded if the log
    shows that responses do not reach the limit. Second, responses reach the limit, and the reward has risen by less
    than half of the smallest detectable gain (starting at the 20th reward). Third, the share of invalid responses has
    risen by 0.3. The conditions must hold on 3 of 5 rows. The onset is the step at which the mean length exceeded 1.25
    times the first length. If the reward has fallen, the length at the best reward is used instead of the first length.

    ## Thresholds
    - `grown_factor`: ratio of the mean response length to its first value above which the length counts as grown.
    - `since_best`: minimum ratio of the mean response length to the length at the best reward for severity error.
    - `cut_rise`: minimum rise in the share of truncated responses for a warning.
    - `limit_share`: mean length, as a share of `max_new_tokens` (0 to 1), above which responses count as reaching the
      limit.
    - `invalid_rise`: minimum rise in the share of invalid responses for severity error.
    - `early_rewards`: minimum number of recorded rewards before a missing gain counts.

    ## Why it matters
    Truncated responses have no answer, so rewards fall to the minimum and become equal in every group. Generation time
    grows with the length. Length grows if long wrong answers are penalised less per token, if EOS is not trained, or if
    the policy has become random.

    ## Example
    ```text
    response_length_mean: 100x4 300x11
    truncated_rate: 0x4 0.2x11
    reward_mean: 0.3x15
    ```
    Warning at step 5: The mean response length grew from 100 to 300 tokens without a reward gain.

    ```text
    response_length_mean: 100x4 150x11
    truncated_rate: 0x15
    reward_mean: 0.3x15
    ```
    No finding.

    ## Known false alarms
    Reasoning runs whose length and reward grow together are not reported unless responses reach the limit. A restart
    with a different length limit also changes the length.

    ## Remedy
    Count truncated responses as wrong and raise the limit. Remove an entropy bonus. Check that EOS is inside the mask.
    If the KL or the entropy has exploded, also roll back.

    ## Sources
    Public runs of ShibukiZero/assignment5-alignment (the length rises from 305 to 900 of 1024 tokens at a reward of 0,
    and to 1024 after a NaN); DAPO (arXiv 2503.14476), Dr. GRPO (2503.20783); fault `length-bonus` of the engine.
    """
    first = baseline(response_length_mean, 1)
    now = recent_mean(response_length_mean)
    chance = 3 * math.sqrt(1 + 1 / 5) * noise(np.log1p(response_length_mean))
    long = (now > grown_factor * first) & (now > first * np.exp(chance))
    cut = recent_mean(cut_share) - baseline(cut_share, 1) >= cut_rise
    full = now > limit_share * max_new_tokens
    known = reward_mean == reward_mean
    poor = known & ~(reward_trend.lean > 0.5) & (total(known) >= early_rewards)
    broken = invalid_rate - baseline(invalid_rate, 1) >= invalid_rise
    level = recent_mean(reward_mean)
    at_best = latest(where(level >= best(level), now, np.nan))
    spared = (cut_share == cut_share) & ~(cut | full)
    with_it = reward_trend.fallen & ~(now < since_best * at_best) & ~spared
    bad = long & (with_it | ((cut | full) & poor) | broken)
    grown = (long & (cut | full)) | bad
    return fires(
        grown,
        "The mean response length grew from {first:.3g} to {now:.3g} tokens{gain}.",
        error=bad,
        onset=where(with_it, began(grown, now > 1.25 * at_best, step), began(grown, now > 1.25 * first, step)),
        first=where(with_it, at_best, first),
        now=now,
        gain=where(
            with_it,
            " since the best reward",
            where(reward_trend.gained, where(cut, REACH, ", close to the length limit"), " without a reward gain"),
        ),
    )
