from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column, fmax, is_any


@check("ADV009", severity="warning", explains=("GRD002",))
def advantage_outlier_domination(
    advantage_max: Column,
    advantage_min: Column = None,
    advantage_std: Column = None,
    normaliser: Column = any_of("settings.normaliser", "settings.scale_rewards"),
    *,
    limit: float = 5.0,
) -> Fires:
    """Single outliers dominate batch-normalised advantages.

    ## What it sees
    The largest |A| above 5 (and above 5 standard deviations where that is recorded) on 5 of 10 rows, in runs that
    declare normalisation over the batch.

    ## Thresholds
    - `limit`: |A|, in standard deviations where those are recorded, from which one sample dominates.

    ## Why it matters
    With one mean and deviation for the whole batch nothing bounds an advantage: a single extreme reward takes a
    large part of the update and squeezes the others towards 0. Within a group |A| is bounded by sqrt(K-1).

    ## Known false alarms
    Sparse rewards: with 1 right answer in 64 the one success has A = 8, and that is the signal. The share of the
    top 1 % of samples would tell more, but needs every advantage, which no record holds.

    ## Remedy
    Cut extreme rewards, or centre per group.

    ## Sources
    arXiv 2501.03262 (REINFORCE++); OpenRLHF `--reward.clip_range`.
    """
    largest = fmax(abs(advantage_max), abs(advantage_min))
    batch = is_any(normaliser, "batch")
    return fires(
        batch & (largest > limit) & ~(largest <= limit * advantage_std),
        "The largest advantage in the batch is {largest:.3g}, so single samples dominate the update.",
        hold=(5, 10),
        largest=largest,
    )
