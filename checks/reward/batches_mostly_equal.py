import math

from grpo_doctor import Fires, check, fires
from grpo_doctor.diagnosis.wording import number
from grpo_doctor.series import (
    Column,
    baseline,
    best,
    isnan,
    latest,
    lowest,
    moving_mean,
    previous,
    row,
    total,
    where,
    words,
)


@check("REW014", vital=True, kind="outcome", severity="warning", confidence="high", explains=("STL001", "GRD003"))
def batches_mostly_equal(
    reward_mean: Column,
    step: Column,
    reward_std: Column = None,
    reward_min: Column = None,
    reward_max: Column = None,
    response_length_mean: Column = None,
    dead_share: Column = None,
    reward_gained: Column = None,
    reward_solved: Column = None,
    *,
    rows: int = 10,
    mostly_share: float = 0.8,
    alike_share: float = 0.5,
    pinned_share: float = 0.4,
    many: int = 100,
) -> Fires:
    """On most steps, all rewards of the batch are equal, so these steps have no learning signal.

    ## What it sees
    The check fires if all rewards are equal in at least 80% of all batches (20 or more) and of the last ten batches.
    Rewards are equal if reward_std, or reward_max minus reward_min, is at most 1e-6. In addition, the reward must not
    have improved and must not be near its maximum. ADV003 judges logs that count zero-variance groups. Half of the
    batches are sufficient if all batches without spread have the same reward and the same mean length. In that case,
    the policy gives the same answer to all prompts, because prompts differ from step to step. Two in five batches are
    sufficient if all batches without spread have the same negative reward. In every other run, severity is **info** if
    half of the batches have equal rewards, unless the task is solved.

    ## Thresholds
    - `rows`: number of last rewards over which batches without spread are counted; at least twice as many must be
      recorded.
    - `mostly_share`: share of batches without spread, 0 to 1, at or above which the check fires.
    - `pinned_share`: share of batches without spread, 0 to 1, at or above which the check fires if their rewards are
      equal and below 0.
    - `many`: minimum number of rewards for severity error (REW001 judges a constant reward).
    - `alike_share`: share of batches without spread, 0 to 1, at or above which the severity is info. If all batches
      without spread have the same reward and length, the severity is warning.

    ## Why it matters
    The advantage is the reward minus the group's mean, so equal rewards give every response an advantage of 0. A run
    that gets a signal on one step in five needs five times as many steps, if it learns at all.

    ## Example
    ```text
    reward_mean: 0x40
    reward_std: 0x40
    ```
    Warning at step 1: All rewards of the batch are equal on 40 of 40 rows, so these rows have no learning signal.

    ```text
    reward_mean: 0.4x40
    reward_std: 0.3x40
    ```
    No finding.

    ## Known false alarms
    If each batch is a single prompt, its rewards are often equal in a task that is almost always or almost never
    solved.

    ## Remedy
    Use more prompts per batch, more responses per prompt, and prompts that the policy solves some of the time.

    ## Sources
    anjaustin/autoresearch, research/archive/logs/grpo_v3_run.log (both rewards of a step are equal on 169 of 207
    steps, which the trainer skips); aaravgupta0202/legaloom_env, training_log.json (a reward of 0.64 for nine tokens,
    without spread, on 26 of 40 steps).
    """
    spread = where(isnan(reward_std), reward_max - reward_min, reward_std)
    tied, n = spread <= 1e-6, row(reward_mean)
    level = best(where(tied, reward_mean, math.nan))
    paid, long = (previous(latest(where(tied, of, math.nan))) for of in (reward_mean, response_length_mean))
    same = tied & (reward_mean == paid)
    alike, pinned = total(same & (response_length_mean == long)) + 1, total(same) + 1
    alike, pinned = alike >= total(tied), (pinned >= total(tied)) & (level < 0)
    share = where(alike, alike_share, where(pinned, pinned_share, mostly_share))
    lately, uncounted = moving_mean(tied, rows), total(dead_share == dead_share) < 1
    often = (lately >= share) & (total(tied) >= share * n)
    half = (lately >= alike_share) & (total(tied) >= alike_share * n)
    idle = often & uncounted & ~(reward_gained | reward_solved)
    return fires(
        idle & (n >= 2 * rows),
        "All rewards of the batch are equal on {tied:.0f} of {rows:.0f} rows, so these rows have no learning "
        "signal{what}.",
        info=half & uncounted & ~reward_solved & (n >= 2 * rows),
        error=idle & (n >= many) & (share >= mostly_share) & (best(reward_mean) > lowest(reward_mean)),
        hold=(1, 1),
        clear=2 * rows,
        onset=baseline(step, 1),
        what=words(_description, alike, pinned, level),
        tied=total(tied),
        rows=n,
    )


def _description(alike: bool, pinned: bool, reward: float) -> str:
    if alike:
        return ". The batches with equal rewards have the same reward and length"
    return f". The reward on the rows without spread is {number(reward)}" if pinned else ""
