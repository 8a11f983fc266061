from grpo_doctor import Fires, any_of, check, fires
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
    """The clip bound belongs to the other kind of ratio: it clips nothing, or nearly everything.

    ## What it sees
    Declared settings: epsilon of 0.05 or more with sequence-level ratios (GSPO, by whichever key says so), or of 0.002
    or less with token-level ones.
    Info where a configuration makes one update a rollout: no bound acts then. Info, too, where TRL's CISPO has an upper
    bound below 1, and where a trainer of the author's own has a narrow bound and does not say its ratio.

    ## Thresholds
    - `wide_from`: epsilon from which it is too wide for a sequence-level ratio.
    - `narrow_below`: epsilon up to which it is too narrow for a token-level ratio.

    ## Why it matters
    A sequence-level ratio is the exponential of a mean: it moves by thousandths, and 0.2 never clips it. A token's
    ratio moves by tenths, and 3e-4 clips nearly every token, which leaves no gradient. TRL cuts the weight of CISPO at
    `epsilon_high` itself, not at one more: at 0.28 nearly every token weighs 0.28, and the correction is gone.

    ## Known false alarms
    Implementations whose sequence ratio is the product over tokens, not the mean. CISPO of
    frameworks other than TRL and Unsloth is left out.

    ## Remedy
    Token level 0.2 (upper 0.2 to 0.28), sequence level 3e-4 and 4e-4, TRL's CISPO an `epsilon_high` of 5.

    ## Sources
    arXiv 2507.18071 (GSPO); arXiv 2503.14476 (clip-higher); TRL `importance_sampling_level` and `epsilon_high` ("the
    recommended value is 5.0"); arXiv 2510.13786 (ScaleRL).
    """
    sequence = is_any(level, "sequence", "sequence_token") | is_any(loss_type, "gspo", "gspo_token", "gspo-token")
    sequence = sequence | is_any(estimator, "gspo", "GSPO")
    other = is_any(loss_type, "cispo", "vespo", "sapo")
    idle, strict = sequence & (epsilon >= wide_from), ~sequence & (epsilon > 0) & (epsilon <= narrow_below)
    bound = where(upper == upper, upper, epsilon)
    capped = is_any(loss_type, "cispo") & (weight == 1) & (bound > 0) & (bound < 1)
    wrong = (idle | strict) & ~other
    unsaid = strict & is_any(framework, "hand-written trainer") & ~is_any(level, "token")
    return fires(
        wrong | capped,
        "A clip bound of {epsilon:.2g} {what}.",
        hold=(1, 1),
        warning=wrong & ~unsaid & ~(updates <= 1),
        epsilon=where(capped, bound, epsilon),
        what=where(
            capped,
            "cuts nearly every weight of CISPO, which TRL caps at the bound itself",
            where(idle, "never clips a sequence-level ratio", "clips nearly every token-level ratio"),
        ),
    )
