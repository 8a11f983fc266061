import math

from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, latest, maximum, moving_max, moving_min, moving_sum, several, sqrt, where


def moments(groups: list[list[float]] | None) -> tuple[float, ...]:
    """Return the number, sum and sum of squares of the reward gaps of the groups with differing rewards."""
    ordered = [sorted(group) for group in groups or () if group]  # takes half the time of `max` and `min`
    gaps = [gap for group in ordered if (gap := group[-1] - group[0]) > 1e-8]
    return len(gaps), sum(gaps), sum([gap * gap for gap in gaps])


@check("ADV002", severity="info", confidence="medium")
def advantage_magnitude_uninformative(
    group_rewards: Column,
    advantage_abs_values: Column,
    group_size: Column = None,
    *,
    rows: int = 10,
    least_groups: int = 20,
    variation: float = 0.5,
    equal_factor: float = 1.02,
) -> Fires:
    """The size of an advantage does not reflect the size of the reward difference.

    ## What it sees
    The check needs at least 20 groups with differing rewards over ten rows. The reward gap of a group is its largest
    reward minus its smallest reward. The check fires if the reward gaps have a coefficient of variation above 0.5, but
    all |A| are within 2% of each other. Severity is info, or warning for groups of two or three.

    ## Thresholds
    - `rows`: number of rows over which groups are counted.
    - `least_groups`: minimum number of groups with differing rewards over `rows` rows.
    - `variation`: coefficient of variation of the reward gaps above which the gaps count as different.
    - `equal_factor`: maximum ratio of the largest to the smallest |A| at which all |A| count as equal.

    ## Why it matters
    Dividing by the group's standard deviation removes the scale of the rewards. A gap of 0.001, which may be the noise
    of a judge, moves the policy as much as a gap of 1.0. With two samples, the z-score keeps only the sign of the
    reward difference. arXiv 2503.20783 describes the same effect as a question-level difficulty bias.

    ## Example
    ```text
    settings.group_size: 2
    group_rewards: [[0, 0.1], [0, 1]]x14
    advantage_abs_values: [1, 1]x14
    ```
    Warning at step 10: All advantages in 20 groups have the same size (1), although the reward differences vary
    (coefficient of variation 0.82).

    ```text
    settings.group_size: 2
    group_rewards: [[0, 0.1], [0, 1]]x14
    advantage_abs_values: [0.05, 0.5]x14
    ```
    No finding.

    ## Known false alarms
    Standardisation equalises the sizes of advantages by design. Equal advantage sizes are a defect only if the size of
    the reward difference is meaningful. No run is known to have collapsed because of equal advantage sizes. Runs with K
    = 2 learn, but more slowly, because they have fewer samples. After the same number of steps, runs with K = 2 score
    0.27 to 0.50, and runs with K = 8 score 0.63.

    ## Remedy
    Remove the division by the standard deviation, or use groups of eight responses. In TRL, set `scale_rewards="none"`.
    In verl, set `algorithm.norm_adv_by_std_in_grpo=False`. In OpenRLHF, set `--algo.advantage.estimator dr_grpo`. In a
    custom trainer, use `A = r - r.mean()`.

    ## Sources
    arXiv 2503.20783 (Dr. GRPO); BoBaCai/grpo-dual, option A; TRL documentation of `scale_rewards`.
    """
    sizes = several(2, lambda a: (max(a, default=math.nan), min(a, default=math.nan)), advantage_abs_values)
    largest, smallest = latest(sizes[0]), latest(sizes[1])
    alike = largest <= equal_factor * smallest  # no other row can be part of a finding
    groups = where(alike, group_rewards, None)
    live, first, second = (moving_sum(x, rows) for x in several(3, moments, groups))
    varies = sqrt(maximum(live * second / first**2 - 1, 0))
    largest, smallest = moving_max(largest, rows), moving_min(smallest, rows)
    blind = (live >= least_groups) & (varies > variation) & (largest <= equal_factor * smallest)
    return fires(
        blind,
        "All advantages in {live:.0f} groups have the same size ({size:.3g}), although the reward differences vary "
        "(coefficient of variation {varies:.2f}).",
        warning=blind & (group_size <= 3),
        live=live,
        size=largest,
        varies=varies,
    )
