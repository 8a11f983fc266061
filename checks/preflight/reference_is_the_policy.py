from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column, is_any, where


@check("CFG012", severity="warning", explains=("KL003",))
def reference_is_the_policy(
    known: Column = any_of("settings.reference", "settings.sync_ref_model"),
    reference: Column = any_of("settings.reference", optional=True),
    sync: Column = any_of("settings.sync_ref_model", optional=True),
    every: Column = any_of("settings.ref_model_sync_steps", optional=True),
    beta: Column = any_of("kl_coef", "settings.beta", optional=True),
) -> Fires:
    """The KL term compares the policy with itself.

    ## What it sees
    The check fires if the settings declare a KL coefficient above 0 and use the policy as the reference model. The
    policy is its own reference model if `reference` is "none", "policy", "self", "old" or "actor". It is also its own
    reference model if the reference model is synchronised at every step.

    ## Why it matters
    The KL of a policy to itself is 0 and has no gradient. With the policy as its own reference model, the coefficient
    has no effect, and the log shows a KL of 0.0000, which looks normal.

    ## Example
    ```python
    GRPOConfig(beta=0.04, sync_ref_model=True, ref_model_sync_steps=1)
    ```
    Warning: The KL coefficient is 0.04, but the reference model is synchronised with the policy at every step.

    ```python
    GRPOConfig(beta=0.04, sync_ref_model=True, ref_model_sync_steps=512)
    ```
    No finding.

    ## Known false alarms
    Some trainers call the initial model "policy". A log is more reliable evidence: KL003 reports a KL of exactly 0, and
    KL006 reports a wrong reference model.

    ## Remedy
    Use a frozen copy of the initial policy as the reference model. With LoRA, use the base model with the adapter
    disabled.

    ## Sources
    TRL `sync_ref_model` (every 512 steps by default).
    """
    itself = is_any(reference, "none", "policy", "self", "old", "actor")
    chased = (sync == 1) & (every <= 1)
    return fires(
        (beta > 0) & (itself | chased),
        "The KL coefficient is {beta:.3g}, but the reference model {what}.",
        hold=(1, 1),
        beta=beta,
        what=where(itself, "is the policy itself", "is synchronised with the policy at every step"),
    )
