import numpy as np

from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, Trend, baseline, from_start, recent_mean, row, where


@check("ENT002", severity="warning")
def entropy_spent_without_gain(
    entropy_mean: Column,
    reward_trend: Trend,
    step: Column,
    eval_gained: Column = None,
    cut_share: Column = None,
    *,
    gone: float = 0.7,
    rows: int = 36,
) -> Fires:
    """Most of the entropy has been lost, but the reward has not increased.

    ## What it sees
    From row 36, the check fires if the mean entropy of the last 5 rows is at most 30% of the first entropy. In
    addition, the reward must not have improved since the start, or must have lost its gain. The check is silent while
    the reward is near its maximum (90% of the best single reward, or of 1 for rewards between 0 and 1). The check is
    also silent if the held-out score has improved, or if the log starts later than its run. The check fires on 5 of 10
    rows.

    ## Thresholds
    - `gone`: minimum share of the first entropy, 0 to 1, that must be lost before the check fires.
    - `rows`: number of rows below which the check is silent.

    ## Why it matters
    A reward gain usually costs entropy. The formula R = b - a exp(H), with reward R and entropy H, fits many runs.
    According to this formula, a policy with little entropy left can gain little more reward. If entropy falls without a
    reward gain, the cause is noise, a wrong sign or formatting.

    ## Example
    ```text
    entropy_mean: 1x5 0.3x35
    reward_mean: 0.3x40
    ```
    Warning at step 36: Entropy fell by 70% (from 1 to 0.3 nats), and the reward has not increased.

    ```text
    entropy_mean: 1x5 0.3x35
    reward_mean: 0.3->0.7x40
    ```
    No finding.

    ## Known false alarms
    A reward whose scale is unknown may be at its maximum from the start. The formula is disputed as a prediction, so
    ENT002 does not predict a reward. Rows on which every response is truncated and masked show an entropy of 0 and are
    skipped. Logs whose entropy is 0 on the first row do not measure entropy and are also skipped.

    ## Remedy
    First find what removed the entropy: the sign of the entropy term, one-sided clipping, or a format reward that every
    response gets. Then raise the upper clip bound or use an entropy target.

    ## Sources
    arXiv 2505.22617 (fits 36 steps; 73% of the entropy for 76% of the gain in 200 of 2400 steps).
    """
    entropy = where((entropy_mean <= 0) & (cut_share >= 1) | (entropy_mean < 0), np.nan, entropy_mean)
    now, first = recent_mean(entropy), baseline(entropy, 1)
    poor = (~(reward_trend.gained | eval_gained) | reward_trend.fallen) & ~reward_trend.solved & from_start(step)
    return fires(
        (row(entropy_mean) >= rows) & (first > 0) & (now <= (1 - gone) * first) & poor,
        "Entropy fell by {spent:.0%} (from {first:.3g} to {now:.3g} nats), and the reward has not increased.",
        hold=(5, 10),
        spent=1 - now / first,
        first=first,
        now=now,
    )
