import numpy as np

from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column, is_any, isnan, known_median, sqrt, where, words


@check("ADV004", severity="warning", confidence="medium", explains=("DIV004", "KL002", "STL001", "STL006"))
def std_floor_dominates(
    known: Column = any_of("advantage_rms_live", "advantage_std"),
    advantage_rms_live: Column = None,
    advantage_std: Column = None,
    dead_share: Column = None,
    group_size: Column = None,
    reward_std: Column = None,
    kl_grad_share: Column = None,
    normaliser: Column = any_of("settings.normaliser", "settings.scale_rewards", optional=True),
    *,
    small_share: float = 0.5,
    tiny_share: float = 0.1,
    kl_share: float = 0.5,
) -> Fires:
    """Advantages are far smaller than standardisation would give, because a floor on the standard deviation dominates.

    ## What it sees
    The check computes the root-mean-square advantage of groups with differing rewards. With division by the group's
    standard deviation, the expected root mean square is sqrt((K-1)/K). The value is `advantage_rms_live` or, if that is
    missing, the standard deviation of the batch's advantages, corrected for zero-variance groups. With `normaliser =
    group`, the check fires if the root mean square is below half of the expected value on 5 of 10 rows. Without a
    declared normaliser, the limit is a tenth, and the advantages must have a larger standard deviation than the
    rewards. Severity is error if a normaliser is declared and the root mean square is below a tenth of the expected
    value. For an error, the KL term must also contribute more than half of the gradient norm.

    ## Thresholds
    - `small_share`: root-mean-square advantage, as a share of the expected value, below which advantages are too small
      with `normaliser = group`.
    - `tiny_share`: root-mean-square advantage, as a share of the expected value, below which advantages are too small
      without a declared normaliser; also required for an error.
    - `kl_share`: share of the KL term in the gradient norm (median of three records), 0 to 1, above which advantages
      below `tiny_share` are an error.

    ## Why it matters
    `clamp(std, min=0.1)`, or a large epsilon, turns z-scores into centred rewards divided by 0.1. Lever-Plus logged
    advantages with a standard deviation of 0.0062: a raw standard deviation of 6e-4 divided by a floor of 0.1. Adam
    cancels the scale, so small advantages alone do no harm. The KL gradient is not scaled down, so it pulls the policy
    back to the reference and stalls the run (fault `std-floor` of the built-in engine).

    ## Example
    ```text
    advantage_std: 0.0062x10
    ```
    Warning at step 1: The root-mean-square advantage is 0.0062, but dividing by the group's standard deviation would
    give 0.71. Zero-variance groups explain the small value only if at most 0.9% of the groups have differing rewards.

    ```text
    advantage_std: 0.7x10
    ```
    No finding.

    ## Known false alarms
    Estimators such as `dr_grpo` do not divide by the standard deviation; declare `normaliser = none`. If rewards differ
    only by noise, the floor is correct and the rewards are the problem. Rank normalisation cannot give advantages this
    small, because ranks have a standard deviation of at least 0.577.

    ## Remedy
    First make the rewards more fine-grained, and set the floor to at most 1e-4. If the floor must stay, lower the KL
    coefficient.

    ## Sources
    Fault `std-floor` of the engine (`grpo-doctor lab --fault std-floor`).
    """
    spread = sqrt(advantage_std**2 / (1 - where(dead_share < 1, dead_share, 0.0)))
    rms = where(isnan(advantage_rms_live), spread, advantage_rms_live)
    k = where(group_size > 1, group_size, 2.0)
    expected = sqrt((k - 1) / k)
    declared = is_any(normaliser, "group", 1.0)
    undeclared = isnan(normaliser)
    live = ~((rms <= 0) | (dead_share >= 1))
    plain = advantage_std <= 1.05 * reward_std
    below = (declared & (rms < small_share * expected)) | (undeclared & (rms < tiny_share * expected) & ~plain)
    pulled = known_median(kl_grad_share, 3) > kl_share
    uncounted = where(isnan(advantage_rms_live) & isnan(dead_share), rms / expected, np.nan)
    return fires(
        live & below,
        "The root-mean-square advantage{whose} is {rms:.2g}, but dividing by the group's standard deviation would give "
        "{expected:.2f}{unless}.",
        hold=(5, 10),
        error=live & declared & (rms < tiny_share * expected) & pulled,
        rms=rms,
        expected=expected,
        whose=words(lambda live: "" if live == live else " of groups with differing rewards", uncounted),
        unless=words(_unless, uncounted),
        kl_grad_share=kl_grad_share,
    )


def _unless(live: float) -> str:
    """Return the share of groups with differing rewards that would explain the value, unless it is logged."""
    if live != live:
        return ""
    return (
        f". Zero-variance groups explain the small value only if at most {live:.1%} of the groups have "
        "differing rewards"
    )
