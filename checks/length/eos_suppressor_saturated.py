from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column


@check(
    "LEN004",
    kind="defect",
    severity="warning",
    confidence="medium",
    explains=("GEN004", "RAT004", "STL001", "ADV003", "REW001", "REW009", "REW015", "DIV004", "LEN005"),
    invalidates=("log-probabilities at the forced positions: the policy did not choose these tokens",),
)
def eos_suppressor_saturated(
    eos_suppressed_rate: Column, min_new_tokens: Column = None, *, warn: float = 0.5, bad: float = 0.9
) -> Fires:
    """Most responses would end before the minimum length, so the generator forces them to continue.

    ## What it sees
    The check uses the share of responses in which EOS would have been chosen before `min_new_tokens`. Severity is
    warning if the share is above 0.5 on 3 of 5 rows, and error if the share is above 0.9. For a fixed policy, the
    share can only grow as the minimum length grows.

    ## Thresholds
    - `warn`: share of responses with EOS suppressed, 0 to 1, above which the severity is warning.
    - `bad`: share of responses with EOS suppressed, 0 to 1, above which the severity is error.

    ## Why it matters
    Forced tokens have a log-probability near -15 under the policy. Forced tokens make text invalid and gradients large,
    and the trainer's probabilities no longer match those of the sampler.

    ## Example
    ```text
    settings.min_new_tokens: 14
    eos_suppressed_rate: 0.9x6
    ```
    Warning at step 1: 90% of the responses would have ended before the minimum length and were forced to continue.

    ```text
    settings.min_new_tokens: 14
    eos_suppressed_rate: 0.1x6
    ```
    No finding.

    ## Known false alarms
    Do not map the line "Blocked 8 of 8" of BoBaCai/grpo-dual to `eos_suppressed_rate`. The code of grpo-dual counts the
    tokens that it has blocked itself, so both numbers in the line are always equal. Minimum lengths of 2 or 3 tokens
    block only degenerate answers.

    ## Remedy
    Lower the minimum. A larger minimum, as BoBaCai/grpo-dual recommends, cannot lower the share.

    ## Sources
    Algebra; fault `min-new-tokens` of the engine;
    BoBaCai/grpo-dual.
    """
    return fires(
        eos_suppressed_rate > warn,
        "{rate:.0%} of the responses would have ended before the minimum length and were forced to continue.",
        error=eos_suppressed_rate > bad,
        rate=eos_suppressed_rate,
        minimum=min_new_tokens,
    )
