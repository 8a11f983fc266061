from typing import Any

from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, each, total, where


@check("ADV001", severity="warning", explains=("ADV002",))
def k2_sign_only_advantage(
    group_size: Column,
    advantage_abs_values: Column,
    *,
    sign_only_share: float = 0.95,
    unit_distance: float = 0.02,
    hold: int = 8,
) -> Fires:
    """With two responses per prompt, every advantage is reduced to its sign.

    ## What it sees
    The check applies to runs that sample two responses per prompt, once eight steps have had differing rewards. The
    check fires if every nonzero |A| is 1 or 0.7071 (within 0.02) on at least 95% of the steps with differing rewards.
    Dividing by the standard deviation gives 1 with ddof 0, and 0.7071 with ddof 1 (TRL, verl and OpenRLHF).

    ## Thresholds
    - `sign_only_share`: minimum share of the steps with differing rewards, 0 to 1, on which advantages keep only their
      sign.
    - `unit_distance`: distance within which |A| counts as equal to 1 or to 0.7071.
    - `hold`: minimum number of steps with differing rewards.

    ## Why it matters
    With two samples, the z-score keeps only the sign: a reward gap of 0.001 has the same weight as a gap of 1. With
    graded rewards, the size of the reward gap is lost. A group size of two does **not** cause a collapse: the bound on
    |A| is smallest for K = 2. If a K=2 run collapses, look for another cause.

    ## Example
    ```text
    settings.group_size: 2
    advantage_abs_values: [0.7071]x8
    ```
    Warning at step 8: With two responses per prompt, advantages keep only their sign (in 8 of 8 steps with differing
    rewards). A group size of two does not by itself cause a collapse.

    ```text
    settings.group_size: 4
    advantage_abs_values: [0.9, 0.3]x8
    ```
    No finding.

    ## Known false alarms
    With binary rewards, all reward gaps have the same size, so no signal is lost. The severity is therefore at most
    warning.

    ## Remedy
    With graded rewards, sample more responses per prompt or do not divide by the standard deviation. If K must stay
    2, use at least 32 groups with differing rewards per update.

    ## Sources
    beita6969/colab-grpo (whose author blamed the group size; the log shows GEN001); arXiv 2510.00977; arXiv 2503.20783.
    """
    sizes = where(group_size == 2, advantage_abs_values, None)
    signs = each(lambda values: _signs_only(values, unit_distance), sizes)
    live, alike = total(signs >= 0), total(signs == 1)
    return fires(
        (group_size == 2) & (live >= hold) & (alike >= sign_only_share * live),
        "With two responses per prompt, advantages keep only their sign (in {alike} of {live} steps with differing "
        "rewards). A group size of two does not by itself cause a collapse.",
        hold=(1, 1),
        alike=alike,
        live=live,
    )


def _signs_only(values: Any, near: float) -> float:
    """Return 1 if every |A| has one of the two sizes, 0 if not, and -1 if no group has differing rewards."""
    sizes = [abs(v) for v in values or () if abs(v) > 1e-6]
    if not sizes:
        return -1.0
    return float(any(all(abs(v - size) < near for v in sizes) for size in (1.0, 0.5**0.5)))
