import math

from grpo_doctor import Fires, check, fires
from grpo_doctor.diagnosis.wording import all_of, number, step_noun, steps
from grpo_doctor.series import (
    Column,
    Trend,
    baseline,
    best,
    departed,
    fmax,
    fmin,
    from_start,
    isnan,
    lowest,
    recent_mean,
    total,
    where,
    words,
)


@check(
    "STL001",
    kind="outcome",
    severity="warning",
    confidence="medium",
    explains=("DIV004", "GRD008", "ADV015"),
    about=("reward_mean",),
)
def learning_stall(
    step: Column,
    reward_mean: Column,
    reward_std: Column = None,
    reward_max: Column = None,
    advantage_std: Column = None,
    reward_trend: Trend = None,
    eval_gained: Column = None,
    dead_share: Column = None,
    cut_share: Column = None,
    kl: Column = None,
    *,
    early_rows: int = 40,
    least_rewards: int = 12,
    silent_rewards: int = 3,
    rows: int = 20,
    headroom_share: float = 0.1,
    moved_share: float = 0.01,
    nothing: float = 0.01,
    done_share: float = 0.8,
    error_dead_share: float = 0.8,
    error_cut_share: float = 0.5,
) -> Fires:
    """The policy does not learn: the reward has not risen.

    ## What it sees
    The check uses the trajectory of the reward, starting at the 12th reward.

    **No reward** (error): the reward has not improved, and at least 85% of the rewards equal the lowest reward, which
    is 0 or less. Before the 40th step, the severity is **warning**. If all rewards are equal and at most 0, and no
    spread of rewards or advantages within a batch was recorded, three rewards are sufficient for a warning. With two
    rewards, or a single reward of exactly 0, the severity is **info**.

    **Nearly 0** (warning): more than 20 rewards are recorded, none is negative, and the mean of any five consecutive
    rewards is below 0.01.

    **Flat** (warning): more than 20 rewards are within 1% of each other and below the largest single reward. The scale
    of the rewards must not be 0 to 1. If the log contains the start of the run, the reward is also flat at step 40 or
    later under the following conditions:

    - the reward has neither improved nor fallen, and the task is not solved
    - noise cannot hide a gain of a tenth of the headroom
    - the reward has risen by less than half of the smallest detectable gain
    - the reward began below 80% of its maximum

    The headroom is the distance between the first level and the maximum. The maximum is the largest recorded single
    reward. If no single rewards are recorded, the maximum is 1 for rewards of 0 to 1, or else the largest mean reward
    of a row. On other scales, after 80 steps, it is sufficient that noise cannot hide a gain of one standard deviation
    of single rewards. The headroom must be at least one standard deviation. On average, the best of four responses is
    one standard deviation above their mean. If noise could hide a gain of a tenth of the headroom, the check does not
    fire, and the verdict is `unproven`.

    A constant reward is only a **warning** if the KL to the reference has risen threefold, to more than 0.005, and
    `reward_std` is not recorded as 0. Equal rewards have no gradient, so another reward or term of the loss moves the
    policy.

    A flat reward is an **error** if most responses are truncated, or if 80% of the groups have equal rewards, both
    recently and over the whole run. In both cases, waiting cannot help. If the log does not count zero-variance groups,
    the check uses batches. A held-out score that has improved counts as learning.

    ## Thresholds
    - `early_rows`: number of steps before which no reward is reported as flat, and severity is never error.
      `early_rows` is doubled if the gain is measured in standard deviations. Seven public runs that learn gained less
      than one standard deviation in their first 78 steps.
    - `least_rewards`: number of rewards at or above which the check tests for a zero or flat reward.
    - `silent_rewards`: number of rewards, all equal to the lowest, at or above which the reward counts as always at its
      minimum.
    - `rows`: number of rows over which zero-variance groups and truncated responses are averaged.
    - `headroom_share`: share of the headroom, 0 to 1, that the gain plus its noise must not reach.
    - `moved_share`: change in the reward, as a share of its size, up to which the reward counts as unchanged.
    - `nothing`: mean reward below which the reward counts as nearly 0.
    - `error_dead_share`: share of zero-variance groups, 0 to 1, at or above which the severity is error.
    - `error_cut_share`: share of truncated responses, 0 to 1, above which the severity is error.
    - `done_share`: first level of the reward, as a share of the maximum, at or above which a flat reward is not
      reported.

    ## Why it matters
    A stalled run costs as much as a run that learns. A loss near 0 proves nothing: in an on-policy update with
    group-centred advantages, the loss is 0 by construction.

    ## Example
    ```text
    reward_mean: 0x3
    ```
    Warning at step 1: The reward is 0 on all 3 steps, so it gives no gradient.

    ```text
    reward_mean: 0.1->0.4x40
    ```
    No finding.

    ## Known false alarms
    In tasks with rare success, the reward is flat for hundreds of steps and then rises quickly.

    ## Remedy
    Check in this order: signal (groups with differing rewards), updates (weight change, learning rate), response limit
    (truncation), strength of the KL term. Change the learning rate last.

    ## Sources
    kartikmunjal/rlhf-and-reward-modelling-alt, ppo_grpo_v1 (0 of 400 exact matches, 70% zero-variance groups, all
    responses at the limit). Coicozoi/minimind-from-scratch, logs/grpo.log (9,751 rewards from -1.85 to -1.81).
    """
    first, now, shown = reward_trend.first, reward_trend.now, reward_trend.shown
    rewards, top, low = total(reward_mean == reward_mean), best(reward_mean), lowest(reward_mean)
    lasted, largest = step - baseline(step, 1), best(reward_max)
    long = (lasted >= early_rows - 1) & (rewards >= least_rewards)
    better = reward_trend.gained | reward_trend.solved | eval_gained
    unpaid = (rewards >= least_rewards) & reward_trend.unpaid & ~better
    none_yet = _none_yet(reward_mean, fmax(reward_std, advantage_std), largest) & ~eval_gained
    never = none_yet & (rewards >= silent_rewards)
    still = _unchanged(top, low, largest, moved_share) & ~reward_trend.unit & (rewards > rows) & ~none_yet
    near_0 = (low >= 0) & (best(recent_mean(reward_mean)) < nothing) & (rewards > rows) & ~(unpaid | never | better)
    most = where(isnan(largest), where(reward_trend.unit, 1.0, top), fmax(largest, top))
    spread = total(reward_std) / total(reward_std == reward_std)
    room = (most <= 0) | (first < done_share * most)
    small = _too_small(reward_trend, most - first, spread, headroom_share, lasted >= 2 * early_rows - 1)
    leans = reward_trend.gain > shown / 2
    flat = ((long & room & small & from_start(step)) | still) & ~(better | leans | reward_trend.fallen | unpaid | never)
    moved = (top <= low) & departed(kl) & ~(best(reward_std) <= 1e-6)  # equal rewards alone cannot do so
    tied = _tied(dead_share, reward_std, top <= low, rows) >= error_dead_share
    cut = recent_mean(cut_share, rows) > error_cut_share
    return fires(
        flat | unpaid | never | near_0,
        "The {what}{more}.",
        info=none_yet,
        error=((unpaid & long) | (flat & (tied | cut))) & ~moved,
        hold=(1, 1),
        clear=1,
        onset=baseline(step, 1),
        what=words(_what, rewards, lasted, unpaid, none_yet, near_0, top, first, now, shown, recent_mean(kl), moved),
        more=where(tied & ~none_yet, TIED, where(cut & ~none_yet, ", and most responses are truncated", "")),
        constant=(none_yet | unpaid) & ~moved,
        throughout=none_yet & ~moved,
        graded=flat & ~still & (spread > 1e-6),
        rewards=rewards,
        first=first,
        level=now,
        shown=shown,
    )


def _none_yet(reward: Column, spread: Column, largest: Column) -> Column:
    """Return whether all rewards are equal and at most 0, without a spread of the rewards or advantages of a batch; a
    single reward must be 0."""
    top = best(reward)
    alike = (top <= lowest(reward)) & ~(best(spread) > 1e-6) & ~(largest > top)
    return alike & (top <= 0) & ((top == 0) | (total(reward == reward) > 1))


def _unchanged(top: Column, low: Column, largest: Column, share: float) -> Column:
    """Return whether all rewards differ by at most a share of their size and are below the largest single reward."""
    above = where(isnan(largest), math.inf, largest - top)
    step_of = share * fmin(abs(top), abs(low))
    return (top - low <= step_of) & (above > step_of)


def _too_small(trend: Trend, headroom: Column, spread: Column, share: float, late: Column) -> Column:
    """Return whether the gain plus its noise is below a share of the headroom. Late in a run on a scale other than 0 to
    1, one standard deviation of single rewards is the limit."""
    gain = trend.possible_gain
    best_of_four = ~trend.unit & (gain < spread) & (spread <= headroom) & late
    return (gain < share * headroom) | best_of_four


def _tied(dead_share: Column, reward_std: Column, constant: Column, rows: int) -> Column:
    """Return the share of groups with equal rewards, recently or in the whole run, whichever is lower. Use batches if
    groups are not counted."""
    batches = where(isnan(reward_std) | constant, math.nan, reward_std <= 1e-6)  # REW001 judges a constant reward
    tied = where(isnan(dead_share), batches, dead_share)
    return fmin(recent_mean(tied, rows), total(tied) / total(tied == tied))


TIED = ", and most rewards are equal within their group"
SAME = 1e-6
"""Smallest detectable gain, as a share of the level, up to which rewards differ only by rounding."""


def _what(
    rewards: float,
    span: float,
    unpaid: bool,
    never: bool,
    nearly: bool,
    top: float,
    first: float,
    now: float,
    shown: float,
    kl: float,
    moved: bool,
) -> str:
    lasted, everywhere = steps(rewards, span), all_of(rewards, step_noun(rewards, span))
    if moved:
        return (
            f"reward is {number(top)} on {everywhere}, but the KL to the reference has risen to {number(kl, 2)}, so "
            "another reward or term moves the policy"
        )
    if never:
        return f"reward is {number(top)} on {everywhere}, so it gives no gradient"
    if unpaid:
        return f"reward is at its minimum on almost all of {lasted} ({number(now)} now)"
    if nearly:
        return f"reward is nearly 0 on {everywhere} (at most {number(top, 2)})"
    if shown <= SAME * max(abs(now), 1.0):
        return f"reward is {number(now)} on {everywhere}, so it gives no gradient"
    return (
        f"reward has not risen in {lasted}: {number(first)} at the start, {number(now)} now "
        f"(smallest detectable gain: {number(shown, 2)})"
    )
