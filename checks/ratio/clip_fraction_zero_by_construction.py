from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, row, total


@check(
    "RAT002",
    kind="remark",
    severity="info",
    confidence="high",
    withholds={
        "clip-higher": "no token has been clipped: with one update per rollout, the ratio is 1 and no bound applies"
    },
)
def clip_fraction_zero_by_construction(
    clip_fraction: Column, ratio_mean: Column = None, ratio_max: Column = None, *, least_rows: int = 10
) -> Fires:
    """The clip fraction is always 0: with one update per rollout, the ratio is 1 and the clip never applies.

    ## What it sees
    The check fires if ten or more clip fractions are recorded and all are exactly 0. If ratios are recorded, the mean
    ratio must be within 0.001 of 1, and the largest ratio must be at most 1.2.

    ## Thresholds
    - `least_rows`: minimum number of recorded clip fractions, all of which must be 0.

    ## Why it matters
    A clip fraction of 0 is not a defect. With one update per rollout, the clip fraction and the ratio provide no
    information. Remedies that act through the clip bound (clip-higher, a smaller epsilon, dual clip) have no effect, so
    the report does not recommend them.

    ## Example
    ```text
    clip_fraction: 0x10
    ```
    Info at step 10: The clip fraction is 0 in all 10 rows, so the clip bounds have no effect in this run.

    ```text
    clip_fraction: 0.01x10
    ```
    No finding.

    ## Known false alarms
    A loss without clipping also logs 0; the conclusion is the same. A log that rounds to two digits hides fractions
    below 0.005.

    ## Remedy
    No change is needed. Judge the step size by the KL between the policies before and after the update, not by the clip
    fraction.

    ## Sources
    TRL documentation of `num_iterations`; verl (`actor/ppo_kl` is exactly 0 on-policy).
    """
    rows, clipped = row(clip_fraction), total(clip_fraction != 0)
    moved = total((abs(ratio_mean - 1) > 1e-3) | (ratio_max > 1.2))
    return fires(
        (rows >= least_rows) & (clipped == 0) & (moved == 0),
        "The clip fraction is 0 in all {rows} rows, so the clip bounds have no effect in this run.",
        hold=(1, 1),
        clear=1,
        rows=rows,
    )
