import numpy as np

from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, baseline, from_start, recent_mean, row, where


@check("ENT002", severity="warning")
def entropy_spent_without_gain(
    entropy_mean: Column,
    reward_gained: Column,
    reward_fallen: Column,
    reward_solved: Column,
    step: Column,
    eval_gained: Column = None,
    cut_share: Column = None,
    *,
    gone: float = 0.7,
    rows: int = 36,
) -> Fires:
    """Most of the entropy is gone, and the reward has not increased.

    ## What it sees
    From row 36 on: the mean entropy of the last 5 rows is at most 30 % of the first row's, and the mean reward stands
    neither 2.5 standard errors above its first value nor above the mean of the first rows. Rewards near their top (90
    % of the best single reward, or of 1 where rewards lie in 0 to 1) are left out, and so are a held-out score that has
    gained and a log that begins later than its run. It fires on 5 of 10 rows.

    ## Thresholds
    - `gone`: share of the first entropy that is spent, 0 to 1.
    - `rows`: rows before which nothing is said.

    ## Why it matters
    Reward is bought with entropy: R = b - a exp(H) fits many runs, so a policy that has spent its entropy has little
    left to buy with. Entropy that went without a gain was lost to noise, to a wrong sign, or to formatting.

    ## Known false alarms
    A reward whose scale is unknown and which is at its maximum from the start. The law itself is disputed as a
    prediction, so nothing is predicted here. Rows on which every response is cut and masked print an entropy of 0 and
    are left out, and so are logs whose entropy is 0 from the first row on: it is not computed there.

    ## Remedy
    Find out what ate the entropy before feeding it: the sign of the entropy term, one-sided clipping, a format reward
    that every response gets. Then raise the upper clip bound or hold entropy at a target.

    ## Sources
    arXiv 2505.22617 (fits 36 steps; 73 % of the entropy for 76 % of the gain in 200 of 2400 steps).
    """
    entropy = where((entropy_mean <= 0) & (cut_share >= 1) | (entropy_mean < 0), np.nan, entropy_mean)
    now, first = recent_mean(entropy), baseline(entropy, 1)
    poor = (~(reward_gained | eval_gained) | reward_fallen) & ~reward_solved & from_start(step)
    return fires(
        (row(entropy_mean) >= rows) & (first > 0) & (now <= (1 - gone) * first) & poor,
        "Entropy fell by {spent:.0%} (from {first:.3g} to {now:.3g} nats), and the reward has not increased.",
        hold=(5, 10),
        spent=1 - now / first,
        first=first,
        now=now,
    )
