from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, moving_median


@check("RAT005", severity="warning", explains=("GRD002",))
def is_weight_degenerate(
    ratio_mean: Column,
    ratio_max: Column = None,
    *,
    low_ratio: float = 0.5,
    high_ratio: float = 2.0,
    rows: int = 5,
) -> Fires:
    """The mean importance weight is far from 1, so the correction is unreliable.

    ## What it sees
    The check fires if the mean probability ratio of new to old policy (median of five rows) is below 0.5 or above 2.

    ## Thresholds
    - `low_ratio`: mean probability ratio below which the check fires.
    - `high_ratio`: mean probability ratio above which the check fires.
    - `rows`: number of rows over which the median is computed.

    ## Why it matters
    Under the old policy, the expected ratio is exactly 1. A mean far from 1 shows that a few samples have all the
    weight, or that the two policies barely overlap. If a few samples have all the weight, the gradient estimate is
    noise.

    ## Example
    ```text
    ratio_mean: 1x5 0.3x6
    ```
    Warning at step 8: The mean importance ratio is 0.3; it should be near 1.

    ```text
    ratio_mean: 1x5 0.9x6
    ```
    No finding.

    ## Known false alarms
    Sequence-level ratios quickly leave the range 0.5 to 2. Severity is never error, because a firm conclusion needs
    the standard deviation, the effective sample size and chi-square, which are not recorded.

    ## Remedy
    Truncate or mask the weights, sample more often, or fix the mismatch (RAT004).

    ## Sources
    verl docs/algo/rollout_corr.md (mean outside 0.5 to 2); identity E[ratio] = 1.
    """
    middle = moving_median(ratio_mean, rows)
    return fires(
        (middle < low_ratio) | (middle > high_ratio),
        "The mean importance ratio is {mean:.3g}; it should be near 1.",
        mean=middle,
        largest=ratio_max,
    )
