from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, fmin, lowest, maximum, total, where


@check(
    "REW005",
    kind="defect",
    severity="error",
    confidence="medium",
    invalidates=("the reward of every step with fallbacks",),
)
def fallback_rewarded(
    reward_mean: Column,
    invalid_rate: Column,
    reward_min: Column = None,
    *,
    least_steps: int = 5,
    invalid_from: float = 0.9,
    good: float = 0.3,
    paid_share: float = 0.5,
) -> Fires:
    """Invalid responses get nearly the reward of valid ones, because a fallback is scored instead.

    ## What it sees
    The check compares the mean reward of invalid steps with that of valid steps. In an invalid step, at least 90% of
    the responses are invalid or replaced. In a valid step, at most 30% of the responses are invalid or replaced. The
    check requires five steps of each kind. The check fires if the mean reward of invalid steps is more than half of
    that of valid steps. Both means are measured from 0, or from the lowest recorded reward if that reward is below 0.

    ## Thresholds
    - `least_steps`: minimum number of steps of each kind.
    - `invalid_from`: share of invalid responses, 0 to 1, at or above which a step counts as invalid.
    - `good`: share of invalid responses, 0 to 1, up to which a step counts as valid.
    - `paid_share`: mean reward of invalid steps, as a share of that of valid steps, 0 to 1, above which the check
      fires.

    ## Why it matters
    The policy is rewarded for text that it did not write. With a fallback, advantages are noise, and the reward does
    not show a total collapse of the output.

    ## Example
    ```text
    reward_mean: 0.6x5 0.5x5
    fallback_rate: 0.05x5 1x5
    ```
    Error at step 10: The reward is 0.5 on steps where almost every response is invalid, and 0.6 on steps where most
    responses are valid. A fallback is scored instead of the response.

    ```text
    reward_mean: 0.6x5 0x5
    fallback_rate: 0.05x5 1x5
    ```
    No finding.

    ## Known false alarms
    A reward may deliberately give partial credit for text that does not parse.

    ## Remedy
    Score the policy's own text. If a default answer is necessary, log its reward under a separate name.

    ## Sources
    beita6969/colab-grpo, training_p30.log: the mean reward is 0.499 on steps with only fallbacks, and 0.564 on valid
    steps.
    """
    is_bad, is_good = invalid_rate >= invalid_from, invalid_rate <= good
    bads, goods = total(is_bad), total(is_good)
    floor = fmin(0.0, lowest(reward_min))
    earned = total(where(is_bad, reward_mean, 0.0)) / maximum(bads, 1)
    valid = total(where(is_good, reward_mean, 0.0)) / maximum(goods, 1)
    enough = (bads >= least_steps) & (goods >= least_steps)
    return fires(
        enough & (valid > floor) & (earned - floor > paid_share * (valid - floor)),
        "The reward is {earned:.3g} on steps where almost every response is invalid, and {valid:.3g} on steps where "
        "most responses are valid. A fallback is scored instead of the response.",
        hold=(1, 1),
        earned=earned,
        valid=valid,
        steps=bads,
    )
