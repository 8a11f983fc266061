from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, recent_mean, total


@check(
    "REW020",
    kind="defect",
    severity="warning",
    confidence="high",
    explains=("STL001", "REW015", "REW017"),
    invalidates=("the reward since step {onset}: it does not depend on the answer",),
)
def wrong_answers_rewarded(
    right_unrewarded_rate: Column,
    wrong_rewarded_rate: Column,
    *,
    rows: int = 5,
    some: float = 0.1,
    reversed_by: float = 0.2,
) -> Fires:
    """Wrong answers are rewarded as often as correct ones.

    ## What it sees
    The check uses rollouts whose marked final answer is a number and whose reference answer is known. Youden's J is the
    share of correct answers that are rewarded minus the share of wrong answers that are rewarded. The check averages J
    over 5 rows with at least three answers of each kind. If J is at most 0 and more than 10% of the wrong answers are
    rewarded, the severity is **warning**. If J is at most -0.2, the severity is **error**. A response counts as
    rewarded if its reward is in the upper half of the step's rewards, or if it is marked as correct.

    ## Thresholds
    - `rows`: number of rows with correct and wrong answers over which J is averaged.
    - `some`: share of wrong answers that are rewarded, 0 to 1, above which the check fires.
    - `reversed_by`: minimum difference between the rewarded shares of wrong and correct answers for severity error.

    ## Why it matters
    If J is 0, the expected gradient does not depend on the answer. If J is below 0, training makes the policy worse.

    ## Example
    ```text
    right_unrewarded_rate: 0.5x10
    wrong_rewarded_rate: 0.5x10
    ```
    Warning at step 5: 50% of the correct answers and 50% of the wrong answers are rewarded.

    ```text
    right_unrewarded_rate: 0.02x10
    wrong_rewarded_rate: 0.02x10
    ```
    No finding.

    ## Known false alarms
    A reward may score something other than the answer, for example in a phase that trains only the format. The
    reference column may contain something other than the answer.

    ## Remedy
    Score ten correct and ten wrong answers yourself. Check that answers and references stay paired after shuffling, and
    that the extraction takes the answer and not a number from the prompt.

    ## Sources
    arXiv 2510.00915 (learning from a noisy verifier needs J above 0).
    """
    right, wrong = recent_mean(right_unrewarded_rate, rows), recent_mean(wrong_rewarded_rate, rows)
    known = (right_unrewarded_rate == right_unrewarded_rate) & (wrong_rewarded_rate == wrong_rewarded_rate)
    youden = 1 - right - wrong
    random = (youden <= 0) & (wrong > some) & (total(known) >= rows)
    return fires(
        random,
        "{paid:.0%} of the correct answers and {wrong:.0%} of the wrong answers are rewarded.",
        error=random & (youden <= -reversed_by),
        paid=1 - right,
        wrong=wrong,
    )
