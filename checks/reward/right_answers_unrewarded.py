from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column, lately


@check(
    "REW021",
    kind="defect",
    severity="warning",
    confidence="high",
    explains=("STL001", "REW001", "ADV003"),
    explains_from="error",
    invalidates=("the mean reward: correct answers count as wrong",),
    run_types=("rl", "evaluation"),
)
def right_answers_unrewarded(
    right_unrewarded_rate: Column,
    responses: Column = any_of("settings.responses", optional=True),
    *,
    some: float = 0.1,
    most: float = 0.5,
) -> Fires:
    """Correct answers are not rewarded: the verifier misses them.

    ## What it sees
    The check uses rollouts whose marked final answer (`\\boxed{}`, `<answer>`, `####`) equals the reference answer.
    The check ignores spacing, units, currency signs and thousands separators, and compares fractions as numbers. Over 5
    rows with at least three correct answers, the check averages the share of correct answers that are not rewarded.
    Truncated and invalid responses are excluded. Severity is **warning** at 10% or more, and **error** at 50% or more.
    A response counts as rewarded if its reward is in the upper half of the step's rewards, or if it is marked as
    correct. A single row of 30 or more rollouts is judged on its own.

    ## Thresholds
    - `some`: share of correct answers that are not rewarded, 0 to 1, at or above which the check fires.
    - `most`: share of correct answers that are not rewarded, 0 to 1, at or above which the severity is error.

    ## Why it matters
    A correct answer with a reward of 0 becomes less likely, as if it were wrong. The policy learns the form that the
    verifier recognises, and the measured success rate is too low.

    ## Example
    ```text
    right_unrewarded_rate: 0x10 0.6x10
    ```
    Error at step 11: 60% of the responses with the reference answer are not rewarded.

    ```text
    right_unrewarded_rate: 0.01x20
    ```
    No finding.

    ## Known false alarms
    If the reward also requires a format, such as reasoning tags, or penalises length, some correct answers are not
    rewarded by design.

    ## Remedy
    Read the responses that the report lists, and score them yourself. Compare numbers as numbers, for example with
    math-verify, and accept every form that the prompt allows.

    ## Sources
    arXiv 2505.14625 (TinyV: more than 38% of the responses that a rule marks wrong are correct).
    """
    missed = lately(right_unrewarded_rate, responses)
    often = missed >= some
    return fires(
        often,
        "{missed:.0%} of the responses with the reference answer are not rewarded.",
        hold=(1, 1),
        error=often & (missed >= most),
        missed=missed,
    )
