from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column, fmax, is_any, isnan, sqrt, where


@check("ADV007", kind="defect", severity="info", confidence="medium", explains=("GRD002",))
def advantage_bound_violation(
    advantage_max: Column,
    group_size: Column,
    advantage_min: Column = None,
    advantage_ddof: Column = None,
    normaliser: Column = any_of("settings.normaliser", "settings.scale_rewards", optional=True),
    *,
    slack: float = 1e-3,
    absurd: float = 10.0,
) -> Fires:
    """An advantage exceeds the maximum for its group size, so advantages are not normalised as declared.

    ## What it sees
    The check fires if the largest |A| exceeds its bound on 3 of 5 rows. The bound is (K-1)/sqrt(K) with ddof 1 (TRL,
    verl, OpenRLHF), and sqrt(K-1) with ddof 0 (numpy) or an unknown ddof. With ddof 1, the bounds for K = 2, 4, 8 and
    16 are 0.707, 1.5, 2.47 and 3.75. With ddof 0, the bounds are 1, 1.73, 2.65 and 3.87. Severity is error if the run
    declares division by the group's standard deviation. Without a declaration, the severity is info, or warning if |A|
    exceeds ten times the bound.

    ## Thresholds
    - `slack`: maximum excess of |A| over the bound that counts as rounding.
    - `absurd`: ratio of |A| to the bound above which the severity is warning without a declared normaliser.

    ## Why it matters
    The bound is a mathematical identity, so a larger advantage means that one of its assumptions is false. Advantages
    may be normalised over the batch or scaled twice, groups may be mixed up, or the divisor may be a rounding error. A
    NeMo-RL user reported an advantage of 7428 and a loss of -26 for a group whose rewards differed only in the last
    bit.

    ## Example
    ```text
    settings.normaliser: group
    settings.group_size: 8
    advantage_max: 2.4x2 3.1x3
    ```
    Error at step 3: An advantage of 3.1 exceeds 2.65, the maximum for groups of 8.

    ```text
    settings.normaliser: group
    settings.group_size: 8
    advantage_max: 2.4x5
    ```
    No finding.

    ## Known false alarms
    In some logs, the group size differs from the declared K because groups are filtered or padded. Batch-normalised
    advantages exceed the bound by design; declare batch normalisation in the settings.

    ## Remedy
    Centre and scale the advantages within each prompt's group. Treat a group as zero-variance if the range of its
    rewards is below 1e-8, not if its standard deviation is 0.

    ## Sources
    Derived (Samuelson's inequality); NVIDIA-NeMo/RL#4161.
    """
    largest = fmax(abs(advantage_max), abs(advantage_min))
    bound = where(advantage_ddof == 1, (group_size - 1) / sqrt(group_size), sqrt(group_size - 1))
    declared = is_any(normaliser, "group", 1.0)
    undeclared = isnan(normaliser)
    over = (group_size >= 2) & (largest > bound + slack)
    return fires(
        over & (declared | undeclared),
        "An advantage of {largest:.3g} exceeds {bound:.3g}, the maximum for groups of {k:.0f}.",
        warning=over & undeclared & (largest > absurd * bound),
        error=over & declared,
        largest=largest,
        bound=bound,
        k=group_size,
    )
