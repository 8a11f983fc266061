from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.diagnosis.wording import number
from grpo_doctor.series import Column, baseline, best, lowest, recent_mean, words


@check(
    "VAL001",
    severity="warning",
    confidence="medium",
    explains=("REW009", "GRD002"),
    invalidates=("advantages since step {onset}: they use a critic that is worse than a constant",),
)
def critic_diverges(
    known: Column = any_of("value_explained_variance", "value_loss"),
    value_explained_variance: Column = None,
    value_loss: Column = None,
    *,
    fitted: float = 0.1,
    times: float = 10.0,
    with_loss: float = 2.0,
) -> Fires:
    """The critic is worse than a constant: its explained variance fell below 0, or its loss exploded.

    ## What it sees
    The check uses means over the last 5 rows. Severity is **warning** if the explained variance fell from 0.1 or more
    to below 0. Severity is **error** if, in addition, the value loss is more than twice its lowest value. Severity is
    also **warning** if the value loss is more than ten times its value on the first rows.

    ## Thresholds
    - `fitted`: minimum explained variance, at most 1, at which the critic counts as having learned.
    - `times`: ratio of the value loss to its first value above which the severity is warning.
    - `with_loss`: ratio of the value loss to its lowest value above which a fall in the explained variance is an error.

    ## Why it matters
    The advantage is the return minus the critic's prediction. A critic with a negative explained variance adds noise to
    every advantage, and the policy follows the noise.

    ## Example
    ```text
    value_loss: 0.2x20 3x9
    ```
    Warning at step 24: The critic diverges: the value loss rose from 0.2 to 3.

    ```text
    value_loss: 0.2x20 0.3x9
    ```
    No finding.

    ## Known false alarms
    The first nonzero rewards of a run change the variance of the returns. An explained variance that is negative from
    the start is not reported, because a critic needs tens of updates to learn.

    ## Remedy
    Divide the critic's learning rate by ten and normalise the returns. Train the critic alone for 20 steps before
    policy training continues.

    ## Sources
    arXiv 1506.02438 (the baseline and the variance of the advantage). rlprobe 0.1, pathology `value_divergence`.
    """
    explained, loss = recent_mean(value_explained_variance), recent_mean(value_loss)
    top, first, least = best(explained), baseline(value_loss), lowest(loss)
    lost = (top >= fitted) & (explained < 0)
    exploded = (loss > times * first) & (first > 0)
    return fires(
        lost | exploded,
        "{what}.",
        error=lost & (loss > with_loss * least),
        what=words(_what, lost, top, explained, first, loss),
        explained=explained,
        loss=loss,
    )


def _what(lost: bool, top: float, explained: float, first: float, loss: float) -> str:
    grown = f"the value loss rose from {number(first)} to {number(loss)}"
    if not lost:
        return f"The critic diverges: {grown}"
    also = f", and {grown}" if loss > first else ""
    return f"The critic's explained variance fell from {number(top, 2)} to {number(explained, 2)}{also}"
