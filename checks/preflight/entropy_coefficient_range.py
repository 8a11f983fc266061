from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column


@check(
    "ENT008",
    severity="warning",
    explains=("ENT003", "LEN002", "LEN003", "REW009", "REW015", "STL003"),
    withholds={"entropy-bonus": "the bonus is already far above its usual range; check the sign before any change"},
)
def entropy_coefficient_range(entropy_coef: Column, *, warning_above: float = 0.02, error_above: float = 0.1) -> Fires:
    """The entropy coefficient is far above the usual range.

    ## What it sees
    The check uses the declared or recorded coefficient of the token-mean entropy. Severity is **warning** above 0.02
    and **error** above 0.1. The default of TRL and verl is 0, and values of 0.0001 to 0.01 are usual. A setting alone
    never makes a run `failing`: without an entropy collapse or explosion, the finding is a note.

    ## Thresholds
    - `warning_above`: entropy coefficient above which the severity is warning.
    - `error_above`: entropy coefficient above which the severity is error.

    ## Why it matters
    The bonus adds coef x H per token, regardless of the quality of the answer. The effect of a large coefficient
    depends on the sign of the bonus. With the correct sign, entropy rises to that of random tokens (fault
    `entropy-coefficient-huge`). With a flipped sign, entropy falls to 0 (`flipped-entropy`). At coefficients up to 0.1,
    the log of one run cannot reveal a flipped sign, but a probe can.

    ## Example
    ```text
    settings.entropy_coef: 0.1
    ```
    Warning: The entropy coefficient is 0.1, 10 times the usual 0.01. Check the sign of the entropy term with a probe: a
    flipped sign lowers entropy.

    ```text
    settings.entropy_coef: 0.01
    ```
    No finding.

    ## Known false alarms
    An adaptive coefficient may have an upper bound, so that large values do not last. A larger coefficient is normal if
    the loss divides the entropy by ln(vocabulary size) or by the response length. Toy environments with a few actions
    use 0.01 to 0.1.

    ## Remedy
    Check the sign (ENT006). Then set the coefficient to 0, or use an adaptive coefficient of at most 0.05 with an
    entropy target of about 0.2 nats. With a target above 2 nats, the bonus never switches off.

    ## Sources
    TRL 1.16 and verl defaults (0); BoBaCai/grpo-dual (0.2 to 6.0); faults `entropy-coefficient-huge` and
    `flipped-entropy` of the engine.
    """
    return fires(
        entropy_coef > warning_above,
        "The entropy coefficient is {coef:.3g}, {times:.0f} times the usual 0.01. Check the sign of the entropy term "
        "with a probe: a flipped sign lowers entropy.",
        hold=(1, 1),
        error=entropy_coef > error_above,
        coef=entropy_coef,
        times=entropy_coef / 0.01,
    )
