from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column, is_any, moving_mean


@check("RAT001", severity="warning", explains=("RAT005",))
def clip_fraction_high(
    clip_fraction: Column,
    advantage_std: Column = None,
    level: Column = any_of("settings.importance_sampling_level", optional=True),
    loss_type: Column = any_of("settings.loss_type", optional=True),
    *,
    rows: int = 10,
    warn: float = 0.2,
    bad: float = 0.4,
) -> Fires:
    """The clip fraction is high, so many tokens do not contribute to the update.

    ## What it sees
    Over the last ten rows, the check averages the share of tokens whose ratio is clipped. Severity is **warning** above
    0.2 and **error** above 0.4. Sequence-level ratios (GSPO) and CISPO are skipped, because they clip by design. Rows
    on which all advantages are equal do not count, because they have no gradient to clip.

    ## Thresholds
    - `rows`: number of rows over which the share is averaged.
    - `warn`: mean share of clipped tokens, 0 to 1, above which the severity is warning.
    - `bad`: mean share of clipped tokens, 0 to 1, above which the severity is error.

    ## Why it matters
    A clipped token has no gradient. If many tokens are clipped, the policy has left the region for which the rollout's
    advantages were computed. The cause is too many updates per rollout, too high a learning rate, or log-probabilities
    that were never comparable. If only the upper bound clips, it is too low for exploration. If only the lower bound
    clips, negative advantages are too strong.

    ## Example
    ```text
    clip_fraction: 0.4x10
    ```
    Warning at step 10: The clip fraction averages 40% over the last ten rows.

    ```text
    clip_fraction: 0.05x10
    ```
    No finding.

    ## Known false alarms
    The check also fires for sequence-level clipping that the log does not declare. Single rows are not judged, because
    a healthy off-policy run (score 75%) has a mean clip fraction of 0.05 but a peak of 0.15. Runs that ended in
    collapse had clip fractions of 0.25 to 1.0.

    ## Remedy
    Make fewer updates per rollout or halve the learning rate. If only the upper bound clips, raise it (TRL:
    `epsilon_high=0.28`).

    ## Sources
    TRL `clip_ratio/region_mean`, verl `actor/pg_clipfrac`; arXiv 2507.18071 (GSPO); public CS336 runs of
    ShibukiZero/assignment5-alignment.
    """
    by_design = is_any(level, "sequence") | is_any(loss_type, "gspo", "cispo")
    share = moving_mean(clip_fraction, rows)
    counts = ~by_design & ~(advantage_std == 0)
    return fires(
        (share > warn) & counts,
        "The clip fraction averages {share:.0%} over the last ten rows.",
        error=(share > bad) & counts,
        hold=(1, 1),
        share=share,
    )
