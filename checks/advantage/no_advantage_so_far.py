import math

from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.diagnosis.wording import number
from grpo_doctor.series import Column, baseline, best, fmax, is_any, isnan, lowest, row, total, where, words


@check("ADV015", vital=True, kind="outcome", severity="warning", confidence="high", explains=("GRD008",))
def no_advantage_so_far(
    step: Column,
    known: Column = any_of("advantage_max", "dead_share", "reward_std", "reward_max"),
    advantage_min: Column = None,
    advantage_max: Column = None,
    dead_share: Column = None,
    reward_mean: Column = None,
    reward_std: Column = None,
    reward_min: Column = None,
    reward_max: Column = None,
    reward_gained: Column = None,
    estimator: Column = any_of("settings.adv_estimator", optional=True),
    *,
    rows: int = 3,
    many: int = 20,
    mostly_share: float = 0.8,
) -> Fires:
    """Every advantage so far is 0, because no response scored better than another in its group.

    ## What it sees
    The check fires if the smallest and largest advantages are 0 on every row so far. Without recorded advantages, the
    check fires if every group has equal rewards. The check also fires if the batch rewards have no spread (reward_std,
    or reward_max minus reward_min, is at most 1e-6) and the mean reward is constant. Severity is info on the first two
    rows and warning from the third row. Severity is also warning if all recorded advantages are 0 on at least 80% of
    the rows, once there are 20 rows. From row 20, severity is error if advantages are 0 although the rewards of the
    batch differ. REW001 covers rewards that are identical for 20 steps. The check is silent once the reward has
    improved. Identical rewards are not judged if a critic is the baseline (`adv_estimator` gae), because their
    advantages can then differ from 0.

    ## Thresholds
    - `rows`: minimum number of rows without any advantage for severity warning. The first rows of a hard task may have
      no advantages.
    - `mostly_share`: minimum share of rows without any advantage, 0 to 1, for severity warning in a run in which some
      rows had advantages.
    - `many`: minimum number of rows for severity error if advantages are 0 although the rewards of the batch differ.

    ## Why it matters
    The policy gradient is a sum of advantages times gradients of log-probabilities, so it is 0 if every advantage is 0.
    If every advantage is 0, a nonzero gradient norm comes from the KL or entropy term and does not improve task
    performance.

    ## Example
    ```text
    reward_min: 1x4
    reward_max: 1x4
    ```
    Warning at step 1: None of the 4 rows has a learning signal: every reward is 1.

    ```text
    reward_min: 0x4
    reward_max: 1x4
    ```
    No finding.

    ## Known false alarms
    In a task with rare success, the first steps may have no advantages. In batches of one prompt, rewards are often
    equal.

    ## Remedy
    Score one correct and one wrong answer manually. If their rewards differ, print the responses to one prompt with
    their rewards: responses and rewards must both differ.

    ## Sources
    Shao et al., arXiv 2402.03300, section 4.1 (the advantage is the reward minus the group mean). rllm-org/rllm#54:
    scores and advantages of 0 for a model that never generates the tags that the reward requires.
    """
    spread = where(isnan(reward_std), reward_max - reward_min, reward_std)
    one = ~(best(reward_mean) - lowest(reward_mean) > 1e-6)  # a batch of one response has no spread either
    tied = where(isnan(dead_share), (spread <= 1e-6) & one, dead_share >= 1) & ~is_any(estimator, "gae")
    largest = fmax(abs(advantage_min), abs(advantage_max))
    n = row(known)
    none = total(where(isnan(largest), tied, largest <= 0))
    rarely = (total(largest <= 0) >= mostly_share * n) & (n >= many) & (none < n)
    nothing = ((none == n) | rarely) & ~reward_gained
    same = best(reward_max) - lowest(reward_min) <= 1e-6
    return fires(
        nothing & (n >= rows),
        "{which}: {why}.",
        info=nothing,
        error=nothing & ~rarely & (n >= many) & (largest <= 0) & (spread > 1e-6),
        hold=(1, 1),
        clear=1,
        onset=baseline(step, 1),
        which=words(_which, n, none),
        why=words(_why, where(rarely, 0.0, largest), spread, where(same, reward_max, math.nan), reward_min, reward_max),
    )


def _which(n: float, none: float) -> str:
    if none < n:
        return f"{none:.0f} of {n:.0f} rows have no learning signal"
    some = {1: "The only row has no", 2: "Neither row has a"}.get(int(n), f"None of the {n:.0f} rows has a")
    return f"{some} learning signal"


def _why(largest: float, spread: float, level: float, low: float, high: float) -> str:
    if largest == largest and spread > 1e-6:
        between = f"rewards range from {number(low)} to {number(high)}" if high > low else "rewards differ"
        return f"every advantage is 0 although {between}, so all responses within each group get the same reward"
    equal = f"every reward is {number(level)}" if level == level else "all groups have zero variance"
    if largest == largest:
        return f"every advantage is 0 and {equal}" if spread == spread else "every advantage is 0"
    return equal
