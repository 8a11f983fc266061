from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column


@check("LEN005", severity="warning")
def min_new_tokens_vs_target(
    min_new_tokens: Column,
    length: Column = any_of("response_length_median", "response_length_mean"),
    *,
    near_factor: float = 1.2,
) -> Fires:
    """The minimum length determines the response length.

    ## What it sees
    The check fires if the response length (the median if logged, otherwise the mean) is at most 20% above the minimum
    length on 3 of 5 rows. The minimum length must be at least 2 tokens. At a length within 20% of the minimum, most
    responses end as soon as the minimum allows. The lengths of the supervised answers would show whether the minimum is
    too high, but logs do not contain these lengths.

    ## Thresholds
    - `near_factor`: maximum ratio of the response length to min_new_tokens at which the check fires.

    ## Why it matters
    Responses that would be shorter are extended with forced tokens, which are scored and trained on.

    ## Example
    ```text
    settings.min_new_tokens: 14
    response_length_mean: 16.2x5
    ```
    Warning at step 1: The mean response length is 16.2 tokens: responses end as soon as the minimum of 14 tokens
    allows.

    ```text
    settings.min_new_tokens: 14
    response_length_mean: 60x5
    ```
    No finding.

    ## Known false alarms
    In some tasks, answers have one fixed length, such as a date or a code.

    ## Remedy
    Set the minimum to at most the 25th percentile of the lengths of supervised answers, and the limit to at least the
    95th percentile.

    ## Sources
    BoBaCai/grpo-dual (the minimum was raised from 5 to 30 and lowered again); fault `min-new-tokens` of the engine.
    """
    return fires(
        (min_new_tokens >= 2) & (length <= near_factor * min_new_tokens),
        "The mean response length is {length:.3g} tokens: responses end as soon as the minimum of {minimum:g} tokens "
        "allows.",
        length=length,
        minimum=min_new_tokens,
    )
