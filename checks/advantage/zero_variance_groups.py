import numpy as np

from grpo_doctor import Fires, check, fires
from grpo_doctor.diagnosis.wording import steps
from grpo_doctor.series import (
    Column,
    Trend,
    baseline,
    began,
    best,
    fmin,
    homogeneous,
    isnan,
    lowest,
    maximum,
    moving_mean,
    previous,
    recent_mean,
    row,
    sqrt,
    total,
    where,
    words,
)
from grpo_doctor.series import solved as is_solved


@check("ADV003", severity="warning", explains=("STL001", "STL006", "GRD003", "GRD008", "ADV012", "ADV015"))
def zero_variance_groups(
    dead_share: Column,
    step: Column,
    reward_mean: Column = None,
    success_rate: Column = None,
    group_size: Column = None,
    groups: Column = None,
    reward_max: Column = None,
    reward_trend: Trend = None,
    meant_trend: Trend = None,
    *,
    rows: int = 10,
    half: float = 0.5,
    most: float = 0.8,
    solved: float = 0.9,
    nearly: float = 0.8,
    all_but_all: float = 0.95,
) -> Fires:
    """Most groups have identical rewards, so they contribute no gradient.

    ## What it sees
    Over 10 steps, the check averages the share of groups whose largest and smallest rewards are equal.

    - Severity is **info** if the share is above 0.5.
    - Severity is **warning** if the share is above 0.8. Severity is also warning if the share is above 0.5, and was 0.8
      or more over the whole run or on most rows.
    - Severity is **error** above 0.8, and **critical** if every group in ten steps has zero variance, unless chance
      explains the share. For severity error or critical, the reward must not have improved and must be below half of
      its scale.
    - If the share is above 0.95 over the whole run, the check fires for any run whose reward has not risen. Severity is
      **error** if the share is above 0.95 over 20 or more rows, unless the task is solved.

    The reward scale ends at the largest recorded single reward. If no single rewards are recorded, the scale ends at 1
    for rewards between 0 and 1, and otherwise at the best mean reward. The check does not fire if the responses with
    equal rewards are correct. The success rate, or a reward above 80% of its maximum, shows this. The check is also
    silent if the reward is near its best level after a clear rise. The check nevertheless fires if the best level is 0
    or less and most groups had zero variance throughout. The exception for a clear rise requires that reward components
    other than formatting, if any are recorded, have improved.

    If the reward scale is known, the message adds the share expected for binary rewards, p^K + (1-p)^K at the mean
    success rate p. If the expected share is close to the actual share, K is too small. If the expected share is far
    below the actual share, the difficulty is bimodal or the responses are alike.

    ## Thresholds
    - `rows`: number of rows over which the share of zero-variance groups is averaged.
    - `half`: share of zero-variance groups, 0 to 1, above which the severity is info.
    - `most`: share of zero-variance groups, 0 to 1, above which the severity is warning or error.
    - `solved`: minimum reward, as a share of the best reward, at which a run that has improved counts as solved.
    - `nearly`: minimum success rate, or minimum reward as a share of the largest single reward, at which equal rewards
      count as correct answers.
    - `all_but_all`: share of zero-variance groups over the whole run, 0 to 1, above which the check fires for any run
      whose reward has not risen.

    ## Why it matters
    All advantages of a zero-variance group are 0. The optimizer still takes a full step for the few remaining groups. A
    KL term pulls the policy back to the reference on all groups.

    ## Example
    ```text
    success_rate: 0.5x20
    zero_variance_share: 0.9x20
    ```
    Warning at step 1: 90.0% of the groups in the last 10 steps have identical rewards, so they contribute no gradient
    (90.0% over the whole run).

    ```text
    success_rate: 0.5x20
    zero_variance_share: 0.3x20
    ```
    No finding.

    ## Known false alarms
    In a solved task, a share of 0.8 to 0.9 is normal at a reward of 0.9. With binary rewards and K=2, at least half of
    the groups have zero variance at any difficulty. With batch scaling, TRL logs a share of 0 or 1 for the whole batch.

    ## Remedy
    Use dynamic sampling (verl, OpenRLHF) or filter prompts by difficulty. Sample at temperature 1. Then raise K.

    ## Sources
    DAPO, arXiv 2503.14476 (42 to 50 on AIME24 by dynamic sampling); beita6969/colab-grpo's log: 235 of 285 groups at
    K=2.
    """
    dead, whole_run = moving_mean(dead_share, rows), total(dead_share) / row(dead_share)
    reward, right = recent_mean(reward_mean, rows), recent_mean(success_rate, rows)
    chance = where(isnan(right), _share(reward, reward_max, reward_trend.unit), right)
    varies, clear, near = _position(reward, solved)
    genuine = isnan(meant_trend.shown) | meant_trend.gained
    learns = reward_trend.gained & genuine
    lasting = (whole_run >= most) | (total(dead >= most) > row(dead_share) / 2)
    unpaid = lasting & (best(reward_mean) <= 0)
    risen = learns & clear & ~unpaid & (near | (chance >= nearly))
    done = risen | is_solved(reward_mean, reward_max, reward_trend.unit, rows, nearly)
    alarm = (dead > half) & ~where(isnan(right), done, right >= nearly)
    never = (dead > all_but_all) & (whole_run > all_but_all) & ~(reward_trend.risen & genuine)
    chance_of = 3 * sqrt(whole_run * (1 - whole_run) / (rows * where(isnan(groups), 1.0, groups)))
    grave = alarm & ~learns & ~(chance >= 0.5) & (lasting | (dead - whole_run > chance_of))
    expected = homogeneous(where((right == right) | reward_trend.unit | (chance == 0), chance, np.nan), group_size)
    return fires(
        (alarm & ((dead > most) | lasting)) | never,
        "{share:.1%} of the groups in the last {steps} have identical rewards, so they contribute no gradient "
        "({whole_run:.1%} over the whole run{chance}){unpaid}.",
        info=alarm,
        error=(grave & (dead > most)) | (never & (row(dead_share) >= 2 * rows) & ~reward_trend.solved & varies),
        critical=grave & (dead >= 1.0),
        clear=3,
        suffered=lasting,
        onset=where(baseline(dead_share) > half, baseline(step, 1), began(alarm | never, dead > half, step)),
        share=dead,
        steps=words(steps, rows, step - previous(step, rows - 1)),
        expected=expected,
        chance=words(_chance, expected),
        whole_run=whole_run,
        unpaid=where(unpaid & reward_trend.gained, "; the mean reward was never above 0", ""),
    )


def _share(reward: Column, reward_max: Column, unit: Column) -> Column:
    """Return the reward as a share of its scale, from its minimum, at most 0, to the largest single reward."""
    top, least = best(reward), fmin(lowest(reward), 0.0)
    peak = where(isnan(best(reward_max)), where(unit, 1.0, maximum(top, 0.0)), best(reward_max))
    return where(peak > least, (reward - least) / (peak - least), 0.0)


def _position(reward: Column, share: float) -> tuple[Column, Column, Column]:
    """Return whether the reward varies, whether it varies clearly, and whether it is near its best level."""
    top, floor = best(reward), lowest(reward)
    near = (reward >= floor + share * (top - floor)) & (reward >= share * abs(top))
    return top > floor, top - floor > 0.2 * maximum(abs(top), abs(floor)), near


def _chance(expected: float) -> str:
    known = expected == expected
    return f"; {expected:.1%} expected for binary rewards at this success rate" if known else ""
