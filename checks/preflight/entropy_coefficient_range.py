from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column


@check(
    "ENT008",
    severity="warning",
    explains=("ENT003", "LEN002", "LEN003", "REW009", "REW015", "STL003"),
    withholds={"entropy-bonus": "the bonus is already far above its usual range; prove its sign before any change"},
)
def entropy_coefficient_range(entropy_coef: Column, *, warning_above: float = 0.02, error_above: float = 0.1) -> Fires:
    """The entropy coefficient lies far above the range in which a bonus is a bonus.

    ## What it sees
    The coefficient of token-mean entropy, declared or recorded: above 0.02 a warning, above 0.1 an error. 0 is the
    default of TRL and verl; 0.0001 to 0.01 is usual. A configuration alone never makes a run failing: without a
    collapse or an explosion this is a note.

    ## Thresholds
    - `warning_above`: entropy coefficient above which it is a warning.
    - `error_above`: entropy coefficient above which it is an error.

    ## Why it matters
    The bonus pays coef x H per token whatever the answer is worth. Its sign decides what a large one does: with the
    right sign it drives entropy to that of random tokens (fault `entropy-coefficient-huge` of the engine); with a
    flipped sign to 0 (`flipped-entropy`). Records of one run cannot tell a flipped sign up to 0.1; a
    probe can.

    ## Known false alarms
    An adaptive coefficient with an upper bound. A loss that divides the entropy by the vocabulary's ln V, or by the
    length of the response. Toy environments with a handful of actions use 0.01 to 0.1.

    ## Remedy
    Prove the sign (ENT006), then set the coefficient to 0, or hold entropy at a target of about 0.2 nats with an
    adaptive coefficient of at most 0.05. A target above 2 nats is a bonus that never goes off.

    ## Sources
    TRL 1.16 and verl defaults (0); BoBaCai/grpo-dual (0.2 to 6.0); faults `entropy-coefficient-huge` and
    `flipped-entropy` of the engine.
    """
    return fires(
        entropy_coef > warning_above,
        "The entropy coefficient is {coef:.3g}, {times:.0f} times the usual 0.01; whether it raises or lowers entropy "
        "depends on its sign, which only a probe can prove.",
        hold=(1, 1),
        error=entropy_coef > error_above,
        coef=entropy_coef,
        times=entropy_coef / 0.01,
    )
