from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column, maximum, total, where


@check(
    "REW010",
    kind="defect",
    severity="error",
    confidence="medium",
    invalidates=("the success rate of every step with fallbacks",),
)
def outcome_hides_fallback(
    invalid_rate: Column,
    outcome: Column = any_of("success_rate", "eval_score"),
    *,
    least_steps: int = 5,
    invalid_from: float = 0.9,
    good: float = 0.3,
    shown_share: float = 0.5,
) -> Fires:
    """The success rate stays high while almost all responses are invalid.

    ## What it sees
    The check compares the mean success_rate (or eval_score) of invalid steps with that of valid steps. In an invalid
    step, at least 90% of the responses are invalid or replaced. In a valid step, at most 30% of the responses are
    invalid or replaced. The check requires five steps of each kind. The check fires if the mean of invalid steps is
    more than half of the mean of valid steps.

    ## Thresholds
    - `least_steps`: minimum number of steps of each kind.
    - `invalid_from`: share of invalid responses, 0 to 1, at or above which a step counts as invalid.
    - `good`: share of invalid responses, 0 to 1, up to which a step counts as valid.
    - `shown_share`: success rate on invalid steps, divided by the success rate on valid steps, 0 to 1, above which the
      check fires.

    ## Why it matters
    The logged success rate is not that of the policy: a default workflow, a retry or a template answers in its place.
    The curve cannot show a collapse, so conclusions from the curve are not valid.

    ## Example
    ```text
    success_rate: 0.5x5 0.4x5
    fallback_rate: 0.05x5 1x5
    ```
    Error at step 10: The success rate is 40.0% on steps where almost every response is invalid, and 50.0% on steps
    where most responses are valid.

    ```text
    success_rate: 0.5x5 0x5
    fallback_rate: 0.05x5 1x5
    ```
    No finding.

    ## Known false alarms
    Another process may measure the success rate on another prompt set.

    ## Remedy
    Count an invalid response as a failure, and report the fallback rate in the same line as the success rate.

    ## Sources
    beita6969/colab-grpo, training_p30.log: the accuracy is 36.0% on steps with 99.6% fallbacks, and 47.3% on other
    steps.
    """
    is_bad, is_good = invalid_rate >= invalid_from, invalid_rate <= good
    bads, goods = total(is_bad), total(is_good)
    hidden = total(where(is_bad, outcome, 0.0)) / maximum(bads, 1)
    shown = total(where(is_good, outcome, 0.0)) / maximum(goods, 1)
    return fires(
        (bads >= least_steps) & (goods >= least_steps) & (shown > 0) & (hidden > shown_share * shown),
        "The success rate is {hidden:.1%} on steps where almost every response is invalid, and {shown:.1%} on steps "
        "where most responses are valid.",
        hold=(1, 1),
        hidden=hidden,
        shown=shown,
        steps=bads,
    )
