from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column, is_any, isnan, rms_on_ties, where


@check("ADV010", severity="warning", confidence="medium")
def global_norm_difficulty_leak(
    advantage_std: Column,
    dead_share: Column,
    groups: Column,
    group_size: Column,
    advantage_rms_live: Column = None,
    advantage_mean: Column = None,
    normaliser: Column = any_of("settings.normaliser", "settings.scale_rewards"),
    *,
    leak: float = 0.3,
) -> Fires:
    """Advantages are normalised over the batch without centring per prompt, so easy prompts are reinforced as a whole.

    ## What it sees
    The check applies to runs that declare normalisation over the batch. The check fires if the advantages of
    zero-variance groups have a root mean square above 0.3 on 3 of 5 rows. The check solves mean(A^2) = (1 - z) x
    rms_live^2 + z x rms_tied^2 for rms_tied, where z is the share of zero-variance groups. For centred groups, the root
    mean square is 0.

    ## Thresholds
    - `leak`: root-mean-square advantage of zero-variance groups above which the groups count as not centred.

    ## Why it matters
    Every response to an easy prompt gets a positive advantage, and every response to a hard prompt gets a negative
    advantage, whatever its quality. In the example of BoBaCai/grpo-dual (rewards 1, 1, 1, 0.2, 0.2, 0.2), the
    recommended global norm gives zero-variance groups advantages of exactly +1 and -1.

    ## Example
    ```text
    settings.normaliser: batch
    settings.group_size: 3
    settings.groups: 2
    advantage_std: 1.0954x3
    zero_variance_groups: 2x3
    ```
    Warning at step 1: Zero-variance groups (100% of all groups) have a root-mean-square advantage of 1.00 instead of 0.

    ```text
    settings.normaliser: group
    settings.group_size: 3
    settings.groups: 2
    advantage_std: 0x3
    zero_variance_groups: 2x3
    ```
    No finding.

    ## Known false alarms
    TRL's `scale_rewards="batch"` and OpenRLHF's `reinforce_baseline` subtract the group mean first: zero-variance
    groups then have A = 0, and the check stays silent. In the built-in engine, the fault `global-norm-uncentred` did no
    visible harm.

    ## Remedy
    Centre advantages per group and scale them per batch. Set `reinforce_baseline` in OpenRLHF, `scale_rewards="batch"`
    in TRL, or `algorithm.adv_estimator=reinforce_plus_plus_baseline` in verl.

    ## Sources
    arXiv 2501.03262, 2508.08221; BoBaCai/grpo-dual, option C.
    """
    tied = rms_on_ties(
        advantage_std,
        where(isnan(advantage_mean), 0.0, advantage_mean),
        advantage_rms_live,
        dead_share,
        groups * group_size,
    )
    batch = is_any(normaliser, "batch")
    return fires(
        batch & (tied > leak),
        "Zero-variance groups ({dead:.0%} of all groups) have a root-mean-square advantage of {tied:.2f} instead of 0.",
        dead=dead_share,
        tied=tied,
    )
