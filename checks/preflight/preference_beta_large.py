from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column, is_any


@check("CFG066", severity="info", confidence="medium", run_types=("preference",))
def preference_beta_large(
    beta: Column = any_of("settings.dpo_beta"),
    method: Column = any_of("settings.algorithm"),
    loss: Column = any_of("settings.preference_loss", optional=True),
    *,
    largest: float = 1.0,
) -> Fires:
    """Beta is above the usual range of a loss that sums over tokens.

    ## What it sees
    DPO or KTO runs with a beta above 1. Losses that divide the margin by the length (`sigmoid_norm`, `dpo_norm`) are
    not checked.

    ## Thresholds
    - `largest`: beta above which the check fires.

    ## Why it matters
    The margin is a sum over all tokens, often tens of nats. With a large beta, the sigmoid saturates after a few steps:
    most pairs have no gradient left, and the policy stays at the reference.

    ## Example
    ```python
    DPOConfig(beta=5.0, learning_rate=5e-7)
    ```
    Info: Beta is 5: the loss saturates after a few steps.

    ```python
    DPOConfig(beta=0.1, learning_rate=5e-7)
    ```
    No finding.

    ## Known false alarms
    Trainers that average log-probabilities over tokens under the name of DPO, such as that of OLMo 3 (beta 5).

    ## Remedy
    Set beta to 0.01 to 0.5, or use a loss that is normalised by length.

    ## Sources
    arXiv 2305.18290 (beta 0.1 to 0.5); arXiv 2405.14734 (SimPO: 2 to 10, normalised by length); TRL `DPOConfig.beta`.
    """
    normalised = is_any(loss, "sigmoid_norm", "dpo_norm")
    return fires(
        (beta > largest) & is_any(method, "dpo", "kto") & ~normalised,
        "Beta is {beta:.3g}: the loss saturates after a few steps.",
        beta=beta,
    )
