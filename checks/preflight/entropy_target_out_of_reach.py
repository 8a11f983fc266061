from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column, latest


@check("CFG007", severity="info", explains=("ENT003",))
def entropy_target_out_of_reach(
    target: Column = any_of("settings.entropy_target"),
    adaptive: Column = any_of("settings.use_adaptive_entropy", optional=True),
    entropy_mean: Column = None,
    *,
    info_nats: float = 1.0,
    warning_nats: float = 2.0,
) -> Fires:
    """The entropy target is so high that the adaptive entropy bonus never switches off.

    ## What it sees
    Severity is **info** for a declared target above 1 nat per token, and **warning** above 2. The check is skipped if
    the adaptive bonus is off, or if the measured entropy is above the target.

    ## Thresholds
    - `info_nats`: target entropy, nats per token, above which the severity is info.
    - `warning_nats`: target entropy, nats per token, above which the severity is warning.

    ## Why it matters
    The controller raises the coefficient while entropy is below the target. A language model that answers well has an
    entropy of 0.1 to 1 nat per token. A target of 5, as in an example of one documentation, drives the bonus to its
    maximum and keeps it there.

    ## Example
    ```python
    GRPOConfig(num_generations=8, use_adaptive_entropy=True, entropy_target=5.0)
    ```
    Warning: The target of the adaptive entropy bonus is 5 nats per token; trained models have 0.1 to 1.

    ```python
    GRPOConfig(num_generations=8, use_adaptive_entropy=True, entropy_target=0.2)
    ```
    No finding.

    ## Known false alarms
    Early in training, the entropy of a base model can be above 2 nats.

    ## Remedy
    Set `entropy_target=0.2` with `entropy_coef_max=0.05` (TRL).

    ## Sources
    TRL 1.16 defaults (0.2, delta 0.005) and its Skywork-OR1 example (5.0).
    """
    below = ~(adaptive == 0) & ~(latest(entropy_mean) > target)
    return fires(
        below & (target > info_nats),
        "The target of the adaptive entropy bonus is {target:.3g} nats per token; trained models have 0.1 to 1.",
        hold=(1, 1),
        warning=below & (target > warning_nats),
        target=target,
    )
