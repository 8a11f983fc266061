import numpy as np

from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column


@check("SHP003", kind="defect", severity="warning")
def gap_vs_top1_inconsistent(logit_gap: Column, top1_prob: Column, *, slack: float = 0.02) -> Fires:
    """The top-1 probability is higher than the logit gap allows.

    ## What it sees
    For one token, p1 <= 1 / (1 + exp(-gap)), with equality if only two tokens have a nonzero probability. The bound is
    a concave function of the gap above 0, so it also applies to means. The check fires if the mean probability is more
    than 0.02 above the bound, on 3 of 5 rows. For example, a gap of 3 allows 0.953, and a gap of 5 allows 0.993.

    ## Thresholds
    - `slack`: largest accepted excess of the probability over the bound.

    ## Why it matters
    If the probability exceeds the bound, gap and probability come from different temperatures, processors or
    positions, so checks of either are not reliable.

    ## Example
    ```text
    logit_gap: 2x5
    top1_prob: 0.95x5
    ```
    Warning at step 1: The top-1 probability is 0.95, but a logit gap of 2 allows at most 0.881.

    ```text
    logit_gap: 2x5
    top1_prob: 0.8x5
    ```
    No finding.

    ## Known false alarms
    No false alarm is possible if gap and probability are means over the same tokens. Rounding of printed digits stays
    within `slack`.

    ## Remedy
    Compute the logit gap and the probability from the same raw logits over the same positions.

    ## Sources
    Algebra; BoBaCai/grpo-dual's trainer computes the gap before and the probability after the temperature is applied.
    """
    bound = 1 / (1 + np.exp(-logit_gap))
    return fires(
        (top1_prob > bound + slack) & (logit_gap >= 0),
        "The top-1 probability is {p:.3g}, but a logit gap of {gap:.3g} allows at most {bound:.3g}.",
        p=top1_prob,
        gap=logit_gap,
        bound=bound,
    )
