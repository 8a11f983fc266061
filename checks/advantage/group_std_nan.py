import math

from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, Trend, each, isnan, seen, where


def holds_nan(groups: list[list[float]] | None) -> bool:
    if math.isfinite(sum(map(sum, groups or ()))):  # no number is NaN
        return False
    return any(reward != reward for group in groups or () for reward in group)


@check(
    "ADV013",
    kind="defect",
    severity="critical",
    confidence="high",
    explains=("GRD001",),
    invalidates=("every checkpoint since step {onset}: a single NaN advantage makes all weights NaN",),
)
def group_std_nan(
    events: Column,
    group_rewards: Column = None,
    group_size: Column = None,
    advantage_ddof: Column = None,
    reward_mean: Column = None,
    reward_trend: Trend = None,
) -> Fires:
    """Advantages are NaN because of a one-response group, a division of 0 by 0, or a NaN reward.

    ## What it sees
    Severity is critical on the first row with a NaN reward, or with a NaN or infinite mean or standard deviation of the
    advantages. A NaN reward standard deviation with a finite mean reward indicates groups of one response. For such a
    row, severity is **critical** if the loss or the gradient norm is also NaN. Otherwise, severity is **warning**, or
    **info** while the reward has improved. Severity is warning for groups of one response with ddof 1 even if no NaN is
    recorded, because TRL silently replaces NaN advantages with 0.

    ## Why it matters
    The standard deviation of a single value with ddof 1 is 0 / 0. The z-score of equal rewards without an epsilon is
    also 0 / 0. A single NaN advantage makes the loss and the gradient NaN, and the next update makes every weight NaN.

    ## Example
    ```text
    advantage_std: 1x3 inf
    ```
    Critical at step 4: Advantages are NaN or infinite.

    ```text
    advantage_std: 1x4
    ```
    No finding.

    ## Known false alarms
    Some logs print NaN for steps without groups, such as skipped steps.

    ## Remedy
    Use at least two responses per group, and add an epsilon to the divisor. Set A = 0 if the range of the rewards is
    below 1e-8. Never return NaN from the reward function.

    ## Sources
    TRL `nanstd`; volcengine/verl#1197, #2505; lzhxmu/CPPO#3, StarsfieldAI/R1-V#69 and om-ai-lab/VLM-R1#71 (a standard
    deviation of NaN in groups of one response).
    """
    recorded = seen(events, "nan", text="advantage_") > 0
    single = (seen(events, "nan", text="reward_std") > 0) & ~isnan(reward_mean)
    trained = (seen(events, "nan", text="loss") > 0) | (seen(events, "nan", text="grad_norm") > 0)
    rewards = each(holds_nan, group_rewards) > 0
    alone = (group_size <= 1) & (advantage_ddof == 1)
    return fires(
        recorded | rewards | (single & trained),
        "{what}",
        hold=(1, 1),
        warning=alone | (single & ~reward_trend.gained),
        info=single,
        what=where(
            recorded,
            "Advantages are NaN or infinite.",
            where(
                rewards,
                "A group contains a NaN reward.",
                where(
                    single,
                    "The reward standard deviation is NaN and the mean reward is finite, as in groups of one response.",
                    "Groups of one response have an undefined standard deviation (0 / 0) and no signal.",
                ),
            ),
        ),
    )
