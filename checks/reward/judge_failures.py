from grpo_doctor import Fires, check, fires
from grpo_doctor.diagnosis.wording import steps
from grpo_doctor.series import Column, moving_mean, previous, words


@check("REW004", kind="defect", severity="warning", explains=("REW009", "REW015", "REW001", "STL001"))
def judge_failures(
    judge_failure_rate: Column, step: Column, *, rows: int = 10, warn: float = 0.02, bad: float = 0.10
) -> Fires:
    """The judge failed to score some responses.

    ## What it sees
    The check averages `judge_failure_rate` over the last 10 recorded steps. Severity is **warning** above 2%
    and **error** above 10%. Failures are timeouts, unparsable verdicts, refused calls and scores from a fallback
    heuristic.

    ## Thresholds
    - `rows`: number of rows over which failures are averaged.
    - `warn`: share of responses that the judge could not score, 0 to 1, above which the severity is warning.
    - `bad`: share of responses that the judge could not score, 0 to 1, above which the severity is error.

    ## Why it matters
    A failure that is scored as 0 is a wrong label. Within a group, a wrong label makes the advantage of a good response
    negative. Failures are not random, because they depend on load and length.

    ## Example
    ```text
    judge_failure_rate: 0.05x12
    ```
    Warning at step 10: The judge failed on 5.0% of the responses in the last 10 steps.

    ```text
    judge_failure_rate: 0.005x12
    ```
    No finding.

    ## Known false alarms
    After a short outage in a long run, the finding clears. If failures are excluded from the loss, they only reduce the
    batch size.

    ## Remedy
    Retry the call, and exclude the sample if it fails again. Never score a failure as 0 or as the batch mean.

    ## Sources
    BoBaCai/grpo-dual warns if 10% or more of the scores are heuristic. TRL drops None from reward functions.
    """
    failing = moving_mean(judge_failure_rate, rows)
    return fires(
        failing > warn,
        "The judge failed on {failing:.1%} of the responses in the last {steps}.",
        error=failing > bad,
        failing=failing,
        steps=words(steps, rows, step - previous(step, rows - 1)),
    )
