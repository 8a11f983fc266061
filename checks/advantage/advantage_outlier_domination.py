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
    The check applies to runs that declare normalisation over the batch. The check fires if the largest |A| is above 5
    on 5 of 10 rows. If the standard deviation of the advantages is recorded, the largest |A| must also be above 5
    standard deviations.

    ## Thresholds
    - `limit`: largest |A| above which one sample dominates. If the standard deviation is recorded, the limit also
      applies to the largest |A| measured in standard deviations.

    ## Why it matters
    With one mean and standard deviation for the whole batch, advantages are unbounded. A single extreme reward
    dominates the update and pushes the other advantages towards 0. Within a group, |A| is bounded by sqrt(K-1).

    ## Example
    ```text
    settings.normaliser: batch
    advantage_min: -2x10
    advantage_max: 2x5 7.5x5
    ```
    Warning at step 6: The largest advantage in the batch is 7.5, so single samples dominate the update.

    ```text
    settings.normaliser: batch
    advantage_min: -2x10
    advantage_max: 2x5 3.5x5
    ```
    No finding.

    ## Known false alarms
    With sparse rewards, a large advantage is the intended signal: with 1 correct answer in 64, the single success has A
    = 8. The share of the top 1% of samples in the update would be more informative, but logs do not contain every
    advantage.

    ## Remedy
    Clip extreme rewards, or centre per group.

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
