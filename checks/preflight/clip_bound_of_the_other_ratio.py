from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.preflight.engine_facts import sequence_level
from grpo_doctor.series import Column, is_any, where


@check("CFG006", severity="info")
def clip_bound_of_the_other_ratio(
    epsilon: Column = any_of("settings.epsilon", "settings.cliprange"),
    level: Column = any_of("settings.importance_sampling_level", optional=True),
    loss_type: Column = any_of("settings.loss_type", optional=True),
    estimator: Column = any_of("settings.adv_estimator", "settings.algorithm", optional=True),
    updates: Column = any_of("settings.updates_per_rollout", optional=True),
    upper: Column = any_of("settings.epsilon_high", optional=True),
    framework: Column = any_of("settings.framework", optional=True),
    weight: Column = any_of("settings.cispo_bound_is_weight", optional=True),
    *,
    wide_from: float = 0.05,
    narrow_below: float = 2e-3,
) -> Fires:
    """The clip bound does not match the ratio type: it clips almost nothing or almost everything.

    ## What it sees
    The check fires if the declared epsilon is 0.05 or more with sequence-level ratios (GSPO), or 0.002 or less with
    token-level ratios. Severity is info if the run makes one update per rollout, because the bound then has no effect.
    Severity is also info if TRL's CISPO has an upper bound below 1. For a custom trainer, severity is info if the bound
    is narrow and the ratio type is not declared.

    ## Thresholds
    - `wide_from`: epsilon at or above which the bound is too wide for a sequence-level ratio.
    - `narrow_below`: epsilon up to which the bound is too narrow for a token-level ratio.

    ## Why it matters
    A sequence-level ratio is the exponential of a mean and changes by thousandths, so a bound of 0.2 never clips it. A
    token-level ratio changes by tenths, so a bound of 3e-4 clips almost every token and leaves no gradient. TRL caps
    the CISPO weight at `epsilon_high` itself, instead of 1 + `epsilon_high`. With `epsilon_high=0.28`, almost every
    token gets a weight of 0.28, and the correction is lost.

    ## Example
    ```shell
    python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo \\
      actor_rollout_ref.actor.policy_loss.loss_mode=gspo actor_rollout_ref.actor.clip_ratio_high=0.28
    ```
    Warning: The clip bound (0.2) never clips a sequence-level ratio.

    ```shell
    python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo \\
      actor_rollout_ref.actor.policy_loss.loss_mode=gspo actor_rollout_ref.actor.clip_ratio_low=3e-4 \\
      actor_rollout_ref.actor.clip_ratio_high=4e-4
    ```
    No finding.

    ## Known false alarms
    In some implementations, the sequence ratio is the product over tokens instead of the mean. CISPO in frameworks
    other than TRL and Unsloth is not checked.

    ## Remedy
    For token-level ratios, use 0.2 (with an upper bound of 0.2 to 0.28). For sequence-level ratios, use 3e-4 and 4e-4.
    For TRL's CISPO, set `epsilon_high=5`.

    ## Sources
    arXiv 2507.18071 (GSPO); arXiv 2503.14476 (clip-higher); TRL `importance_sampling_level` and `epsilon_high` ("the
    recommended value is 5.0"); arXiv 2510.13786 (ScaleRL).
    """
    sequence = sequence_level(level, loss_type, estimator)
    other = is_any(loss_type, "cispo", "vespo", "sapo")
    idle, strict = sequence & (epsilon >= wide_from), ~sequence & (epsilon > 0) & (epsilon <= narrow_below)
    bound = where(upper == upper, upper, epsilon)
    capped = is_any(loss_type, "cispo") & (weight == 1) & (bound > 0) & (bound < 1)
    wrong = (idle | strict) & ~other
    unsaid = strict & is_any(framework, "hand-written trainer") & ~is_any(level, "token")
    return fires(
        wrong | capped,
        "The clip bound ({epsilon:.2g}) {what}.",
        warning=wrong & ~unsaid & ~(updates <= 1),
        epsilon=where(capped, bound, epsilon),
        what=where(
            capped,
            "caps almost every CISPO weight, because TRL uses the bound itself as the cap",
            where(idle, "never clips a sequence-level ratio", "clips almost every token-level ratio"),
        ),
    )
