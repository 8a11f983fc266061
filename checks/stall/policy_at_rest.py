from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column, baseline, is_any, latest, total, where


@check("STL006", kind="outcome", severity="warning", confidence="medium", explains=("DIV004",))
def policy_at_rest(
    kl: Column,
    advantage: Column = any_of("advantage_rms_live", "advantage_std"),
    reward_mean: Column = None,
    rows_are: Column = any_of("settings.rows", optional=True),
    *,
    early_rows: int = 40,
    epochs: int = 3,
    tiny: float = 0.1,
    same_within: float = 0.25,
    kl_rise: float = 0.1,
) -> Fires:
    """The policy is not learning: advantages are small and the KL to the reference model does not rise.

    ## What it sees
    The check applies to runs that record no reward at all. The check fires if the size of the advantages is below 0.1
    and has stayed within 25% of its first value. In addition, the KL to the reference model must have risen by at most
    a tenth of its first value. Both conditions must hold on 40 rows, or on 3 rows that are means over an epoch (`rows =
    epochs`). If rewards are recorded, STL001 judges whether the run learns.

    ## Thresholds
    - `early_rows`: number of rows before which the check does not fire.
    - `epochs`: number of epochs before which the check does not fire if rows are means over an epoch.
    - `tiny`: size of the advantages below which updates barely move the policy. Division by the group's standard
      deviation gives a size of 1.
    - `same_within`: relative change in the size of the advantages up to which the size counts as unchanged.
    - `kl_rise`: relative increase in the KL up to which the policy counts as unchanged.

    ## Why it matters
    A run that does not learn costs as much as a run that learns. A loss near 0 proves nothing: in an on-policy update
    with group-centred advantages, the loss is 0 by construction.

    ## Example
    ```text
    advantage_std: 0.0062x40
    kl: 0.04x40
    ```
    Warning at step 40: The policy is not learning. The advantage scale is 0.0062, and the KL to the reference model has
    not risen (0.04 at the start, 0.04 now).

    ```text
    advantage_std: 0.7x40
    kl: 0.01->0.2x40
    ```
    No finding.

    ## Known false alarms
    Advantages of the form A = r - mean are small by design if the rewards are nearly equal.

    ## Remedy
    Log the reward first. Then check in this order: whether rewards differ within a group, how large the advantages are,
    and whether the KL term dominates. Change the learning rate last.

    ## Sources
    Three runs of a selector that ranks tied rewards (`tests/test_first_public_logs.py`): advantages of 0.006, and a KL
    that falls from 0.09 to 0.07 in three epochs.
    """
    size, now = latest(advantage), latest(kl)
    first, begun = baseline(size, 1), baseline(kl, 1)
    enough = where(is_any(rows_are, "epochs"), epochs, early_rows)
    small = (size < tiny) & (abs(size - first) <= same_within * first)
    return fires(
        (total(reward_mean == reward_mean) == 0) & small & (now <= (1 + kl_rise) * begun) & (total(kl == kl) >= enough),
        "The policy is not learning. The advantage scale is {size:.2g}, and the KL to the reference model has not "
        "risen ({begun:.3g} at the start, {kl:.3g} now).",
        hold=(1, 1),
        clear=1,
        size=size,
        begun=begun,
        kl=now,
    )
