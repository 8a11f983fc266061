import math

import numpy as np

from grpo_doctor import Fires, Rival, check, fires
from grpo_doctor.stats import Column, baseline, best, latest, lowest, moving_mean, noise, recent_mean, row


@check(
    "STL001",
    severity="warning",
    confidence="medium",
    outcome=True,
    rivals=(
        Rival(
            "no signal",
            "the groups are dead, so no gradient exists",
            "the share of groups whose rewards differ (ADV003), and whether the dead ones are all wrong",
        ),
        Rival(
            "the update does not arrive",
            "learning rate near 0, frozen or unwrapped parameters, skipped steps",
            "weight_delta, policy_movement_kl and grad_norm (STL003, STL004, UPD002)",
        ),
        Rival(
            "the KL term holds the policy",
            "it pulls back what the reward pushes",
            "the share of the KL term in the gradient norm (KL002)",
        ),
        Rival(
            "the responses are cut off",
            "the answer never fits into the limit",
            "truncated_rate, and the same prompts with twice the limit (LEN003)",
        ),
        Rival("more time is needed", "sparse success takes hundreds of steps", "the success rate at K = 64 samples"),
    ),
    remedies=("filter-dead-groups", "raise-group-size"),
)
def learning_stall(
    reward_mean: Column,
    reward_max: Column = None,
    dead_share: Column = None,
    cut_share: Column = None,
    *,
    early: int = 40,
    rows: int = 20,
    gain: float = 0.1,
    done: float = 0.8,
    dead: float = 0.5,
    cut: float = 0.5,
) -> Fires:
    """The policy does not learn: the reward has not moved since the start.

    ## What it sees
    From the 40th recorded reward on: the best mean of 20 rewards against the first such mean. It fires (**warning**)
    when the gain, two standard errors added, is below 10 % of the headroom and below the first level itself. Headroom
    is what lies between the first level and the largest reward recorded, or 1 where no single reward is recorded and
    none exceeds 1. So it says "has not learnt" only where the noise would let it see learning. **error** when at
    the same time most groups are dead or most responses are cut off: then no patience helps. A run that begins at 80 %
    of its top is solved, not stalled.

    ## Why it matters
    A stalled run costs what a learning run costs. A loss near 0 says nothing: it is 0 by construction in an on-policy
    group-centred update, learning or not.

    ## Known false alarms
    Tasks with rare success, where nothing happens for hundreds of steps and then much. Rewards on a scale far below 1
    whose largest value is not recorded.

    ## Remedy
    In this order: is there signal (live groups), does the update arrive (weight change, learning rate), does the answer
    fit (truncation), is the KL term stronger than the reward. Only then the learning rate.

    ## Sources
    kartikmunjal/rlhf-and-reward-modelling-alt, ppo_grpo_v1: 0 of 400 exact matches, 70 % dead groups, all responses at
    the cap. rohunagrawal/reward-hacking-entropy, Hard: 0.05 → 0.07 in 54 rows. Throw-away engine: lr / 1000, beta 10
    and a std floor end at 0.25-0.27 (healthy 0.63).
    """
    level = recent_mean(reward_mean, rows)
    first, top = baseline(level, 1), best(level)
    blur = 2 * noise(reward_mean) * math.sqrt(2 / rows)
    largest = best(reward_max)
    unit = np.where(best(reward_mean) <= 1, 1.0, math.nan)
    most = np.where(np.isnan(largest), unit, np.fmax(largest, best(reward_mean)))
    grown = top - first + blur
    flat = (grown < gain * (most - first)) & ((first <= 0) | (grown < first))
    unsolved = first < lowest(reward_mean) + done * (most - lowest(reward_mean))
    stalled = flat & unsolved & (row(reward_mean) >= early)
    none, ended = latest(moving_mean(dead_share, rows)), latest(moving_mean(cut_share, rows))
    hopeless = (none > dead) | (ended > cut)
    return fires(
        stalled,
        "The reward has not moved in {seen} rewards: {first:.3g} at the start, {level:.3g} now{more}.",
        error=stalled & hopeless,
        clear=rows,
        seen=row(reward_mean),
        first=first,
        level=level,
        more=np.where(
            none > dead,
            ", and most groups are dead",
            np.where(ended > cut, ", and most responses are cut off", ""),
        ),
    )
