from typing import Any

from grpo_doctor import Fires, any_of, check, fires, probe, probes
from grpo_doctor.series import Column, is_any, isnan, rms_on_ties, where


@check(
    "ADV005", kind="defect", severity="warning", confidence="medium", explains=("REW009", "REW015", "STL001", "STL006")
)
def rank_normalisation_on_ties(
    advantage_std: Column,
    dead_share: Column,
    groups: Column,
    group_size: Column,
    advantage_rms_live: Column = None,
    advantage_mean: Column = None,
    advantage_max: Column = None,
    advantage_min: Column = None,
    normaliser: Column = any_of("settings.normaliser", optional=True),
    *,
    noise: float = 0.3,
    error_tied_share: float = 0.5,
) -> Fires:
    """Rank normalisation gives tied rewards different advantages, so zero-variance groups push the policy at random.

    ## What it sees
    The root-mean-square advantage of zero-variance groups, which should be 0, follows from the identity mean(A^2) =
    (1 - z) x rms_live^2 + z x rms_tied^2, where z is the share of zero-variance groups. It is above 0.3 on 3 of 5
    rows, and either the run declares `normaliser = rank`, or the advantages reach exactly -1 and 1 with more than two
    samples per group. It is an error while more than half of the groups are tied.

    ## Thresholds
    - `noise`: root-mean-square advantage of zero-variance groups above which ties are ranked at random.
    - `error_tied_share`: share of tied groups, 0 to 1, above which it is an error.

    ## Why it matters
    `argsort(argsort(r))` breaks ties by position: a zero-variance group gets advantages from -1 to 1 that are
    unrelated to its responses. While rewards differ, this costs little (0.61 against 0.63). Once most groups are
    tied, it destroys the policy; z-scores do not.

    ## Known false alarms
    The rule needs the number of groups and the deviation over the whole batch; rounded logs blur it, hence the wide
    limit of 0.3 (index ranks of eight give 0.65). The opposite claim, that ranks compress advantages to 0.006, is
    arithmetically impossible: untied ranks in [-1, 1] have a standard deviation of sqrt((n+1)/(3(n-1))) > 0.577.

    ## Remedy
    Use average ranks for ties and 0 for zero-variance groups, or use z-scores.

    ## Sources
    Derived; yunsoft2019/Lever-Plus and its follow-up report; fault `rank-advantages` of
    the engine.
    """
    tied = rms_on_ties(
        advantage_std,
        where(isnan(advantage_mean), 0.0, advantage_mean),
        advantage_rms_live,
        dead_share,
        groups * group_size,
    )
    declared = is_any(normaliser, "rank")
    exact = (abs(advantage_max - 1) < 1e-3) & (abs(advantage_min + 1) < 1e-3) & (group_size > 2)
    noisy = (declared | exact) & (tied > noise)
    return fires(
        noisy,
        "Zero-variance groups ({dead:.0%} of all) have a root-mean-square advantage of {tied:.2f} instead of 0: "
        "ranking breaks their ties at random.",
        error=noisy & (dead_share > error_tied_share),
        dead=dead_share,
        tied=tied,
    )


@probe("ADV005", severity="error")
def probe_ties(advantages: Any, *, limit: float = 1e-2, rounded_limit: float = 1.0) -> Fires | None:
    """## What this certifies, and what it does not
    The probe gives groups of 2 to 16 with tied rewards (0, 0.1, 0.5, 1 and a pair of ties among others) to the
    trainer's own function: whole groups of ties must come out as zero, equal rewards must get equal advantages.
    Float32 rounding errors of up to 1e-2 are accepted. Where only rewards of 0.1 fail, which float32 rounds, the
    formula is correct but its epsilon is too small. That is a warning up to 1, the size of an ordinary advantage; an
    epsilon of 1e-8 leaves 0.75. The probe certifies the handling of ties only (centring: ADV006; size: ADV007).

    ## Thresholds of the probe
    - `limit`: |A| of a tie that counts as rounding.
    - `rounded_limit`: |A| of ties of 0.1 alone up to which it is a warning.
    """
    import torch

    def of_equal(value: float, k: int) -> float:
        found = probes.loss_trials.advantages_of(advantages, torch.full((3, k), value))
        return float(found.abs().max())

    sizes = (2, 4, 8, 16)
    tied = max(of_equal(value, k) for k in sizes for value in (0.0, 0.5, 1.0))
    rounded = max(of_equal(0.1, k) for k in sizes)
    partly = 0.0
    for k in sizes:
        rewards = torch.tensor([[0.3] * (k // 2) + [0.7] * (k - k // 2)] * 2)
        found = probes.loss_trials.advantages_of(advantages, rewards)
        for half in (found[:, : k // 2], found[:, k // 2 :]):
            partly = max(partly, float((half.amax(1) - half.amin(1)).max()))
    if max(tied, partly) <= limit < rounded <= rounded_limit:
        return fires(
            True,
            "Groups with all rewards at 0.1 get advantages of up to {rounded:.3g}: a rounding error is divided by a "
            "standard deviation of 0, and epsilon is too small.",
            warning=True,
            rounded=rounded,
        )
    return fires(
        not max(tied, rounded, partly) <= limit,
        "Zero-variance groups get advantages of up to {tied:.3g}, and equal rewards within a group get advantages "
        "that differ by up to {partly:.3g}.",
        tied=max(tied, rounded),
        partly=partly,
    )
