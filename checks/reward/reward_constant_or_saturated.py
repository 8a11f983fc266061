import math

from grpo_doctor import Fires, check, fires
from grpo_doctor.diagnosis.wording import number
from grpo_doctor.diagnosis.wording import steps as in_words
from grpo_doctor.series import (
    Column,
    baseline,
    best,
    departed,
    from_start,
    isnan,
    latest,
    lowest,
    moving_max,
    moving_mean,
    moving_min,
    previous,
    row,
    total,
    where,
    words,
)


@check(
    "REW001",
    vital=True,
    kind="outcome",
    severity="info",
    confidence="high",
    explains=("ADV003", "ADV012", "ADV015", "STL001", "GRD003", "GRD008", "REW014"),
    about=("reward_mean",),
)
def reward_constant_or_saturated(
    reward_mean: Column,
    step: Column,
    reward_std: Column = None,
    reward_min: Column = None,
    reward_max: Column = None,
    reward_unit: Column = None,
    success_rate: Column = None,
    grad_norm: Column = None,
    reward_meant: Column = None,
    kl: Column = None,
    *,
    steps: int = 20,
    least_rewards: int = 10,
    proving_rewards: int = 4,
    solved_from: float = 0.98,
    low_up_to: float = 0.5,
    low_below_share: float = 0.9,
    chance_probability: float = 1e-5,
) -> Fires:
    """Every response gets the same reward, so there is no gradient.

    ## What it sees
    **Constant**: the rewards of each batch have no spread for at least 20 steps and 10 recorded rewards. No spread
    means that `reward_std`, or `reward_max` minus `reward_min`, is at most 1e-6. If no spread is recorded, the batch
    means must be identical. The first four rows of the run are enough if spread and gradient norm are both 0. In a log
    with one row per ten steps, the check fires at the tenth row at the earliest. Batches without spread count only once
    the probability that such a series arises by chance is at most 1e-5. The probability follows from the share of
    batches without spread so far. In batches of a single prompt, equal rewards are common. If `reward_std` is not
    recorded as 0, a constant reward is left to STL001 while the KL to the reference model has risen threefold, to more
    than 0.005.

    **Solved**: the success rate, or a reward on a scale of 0 to 1, averages at least 0.98 over the last 20 recorded
    rewards.

    A constant reward has no signal (**error**) in any of these cases:

    - the reward is at most 0.5 on a scale of 0 to 1
    - the reward is at most 0, and closer to the lowest than to the highest reward of the run
    - the reward is below nine tenths of the largest single reward
    - the success rate is at most 0.02
    - only formatting components, recognised by name, have ever been above 0
    - the batch means differ from step to step, although no reward differs within a step

    Any other constant reward is a **warning**, as is a task that was already solved within the first five rows. A run
    that solved the task during training is reported as **info**, because it has finished.

    ## Thresholds
    - `steps`: number of steps over which the reward must be constant or the task must be solved.
    - `least_rewards`: minimum number of recorded rewards within `steps`.
    - `proving_rewards`: number of recorded rewards, all without spread and with a gradient of 0, that prove a constant
      reward.
    - `solved_from`: success rate or reward, 0 to 1, at or above which the task counts as solved.
    - `low_up_to`: reward, on a scale of 0 to 1, up to which a constant reward counts as low.
    - `low_below_share`: share of the largest single reward below which a constant reward counts as low.
    - `chance_probability`: probability of a series of batches without spread above which the series counts as chance.

    ## Why it matters
    The advantage is the reward minus the mean of its group, so equal rewards give every response an advantage of
    exactly 0. Only the KL term and weight decay still change the weights. A run that starts with a solved task wastes
    its whole budget. A run that starts without a signal does not improve with more steps.

    ## Example
    ```text
    reward_mean: 0x20
    ```
    Error at step 1: The reward has been 0 for 20 steps in a row: all responses score the same, so there is no
    gradient.

    ```text
    reward_mean: 0.1->0.3x20
    ```
    No finding.

    ## Known false alarms
    A finished run on a small task ends with a constant reward, so severity is **info** if the reward reached its
    maximum. On a task with rare success (8 responses, 2% correct), a small batch may have no success for 20 steps by
    chance. The finding clears at the first success. If the maximum of the reward is unknown and above 1, a solved run
    is reported as constant (warning), for example with rewards up to 2.5.

    ## Remedy
    If the task is solved, stop the run or use harder prompts. If there is no signal, first test the reward function on
    one correct and one wrong answer. Then use easier prompts, a supervised start, or a graded reward.

    ## Sources
    Dawn-Of-Justice/Fair-RLVR, run grpo_correctness_only (a reward of 1.0 and a spread of 0 from the first row to step
    1000); huggingface/trl#3857 (a grad_norm of 0.0 at a frac_reward_zero_std of 1.0). Fault `constant-reward` of the
    engine.
    """
    n, spread = row(reward_mean), where(isnan(reward_std), reward_max - reward_min, reward_std)
    unlike = where(isnan(spread), abs(reward_mean - previous(reward_mean)), spread) > 1e-6
    alike, lasted = _since(unlike, n, step)
    by_chance = (spread == spread) & (_share_before(unlike, alike, n) ** alike > chance_probability)
    proven = (alike == n) & (n >= proving_rewards) & (spread <= 1e-6) & (grad_norm <= 0)
    constant = (
        (alike >= least_rewards)
        & (lasted >= steps)
        & ~by_chance
        & ~((alike == n) & departed(kl) & ~(best(reward_std) <= 0))
    ) | proven
    level = _level(reward_mean, least_rewards, proven)
    by_form = best(reward_meant) <= 0  # correctness has never been above 0
    solved = reward_unit & (moving_mean(reward_mean, steps) >= solved_from) & ~by_form
    solved = solved | (moving_mean(success_rate, steps) >= solved_from)
    began = (reward_unit & (baseline(reward_mean) >= solved_from)) | (baseline(success_rate) >= solved_from)
    unsolved = constant & ~solved
    varied = unsolved & (moving_max(reward_mean, least_rewards) - moving_min(reward_mean, least_rewards) > 1e-6)
    low = (level < low_below_share * best(reward_max)) | (reward_unit & (level <= low_up_to))
    low = low | _at_bottom(level, reward_mean) | (moving_mean(success_rate, least_rewards) <= 1 - solved_from) | by_form
    dead, rows = varied | unsolved & low, where(constant, alike, least_rewards)
    return fires(
        constant | solved,
        "{what}: {why}.",
        warning=solved & from_start(step) & began | unsolved,
        error=dead,
        hold=(1, 1),
        clear=steps,
        onset=where(unsolved, latest(where(alike == 1, step, math.nan)), math.nan),
        what=words(_what, level, varied, rows, where(constant, lasted - 1, 0), constant),
        constant=unsolved,
        throughout=unsolved & (alike == n),
        solved=solved,
        level=level,
        rows=rows,
        why=_why(solved, constant, dead & ~varied),
    )


def _since(unlike: Column, n: Column, step: Column) -> tuple[Column, Column]:
    """Return the number of rewards, and of steps, since rewards last differed."""
    before, since = latest(where(unlike, n, math.nan)), latest(where(unlike, step, math.nan))
    gap = step - previous(step)
    return n - where(isnan(before), 0, before), step - where(isnan(since), baseline(step, 1) - gap, since)


def _share_before(unlike: Column, alike: Column, n: Column) -> Column:
    """Return the share of rows without a difference among the rows before the last ``alike`` rows."""
    return (total(~unlike) - alike) / (n - alike)


def _level(reward: Column, rows: int, proven: Column) -> Column:
    """Return the recent mean reward, or the last reward if fewer rows already prove that the reward is constant."""
    level = moving_mean(reward, rows)
    return where(proven & isnan(level), latest(reward), level)


def _at_bottom(level: Column, reward: Column) -> Column:
    """Return whether a level of at most 0 is closer to the lowest reward than to the highest."""
    return (level <= 0) & (level - lowest(reward) <= best(reward) - level)


def _why(solved: Column, constant: Column, same: Column) -> Column:
    done = where(
        constant, "the task is solved and there is no signal left", "the task is nearly solved, with little signal left"
    )
    none = where(same, "all responses score the same, so there is no gradient", "there is no gradient")
    return where(solved, done, none)


def _what(level: float, varied: bool, rows: float, span: float, constant: bool) -> str:
    if not constant:
        return f"The reward averages {number(level)} over the last {in_words(rows, span)}"
    one = "Every response within a step has had the same reward" if varied else "The reward has been"
    return f"{one if varied else f'{one} {number(level)}'} for {in_words(rows, span)} in a row"
