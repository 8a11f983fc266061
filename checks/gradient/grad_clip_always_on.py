from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column, moving_mean


@check("GRD004", kind="remark", severity="info")
def grad_clip_always_on(
    grad_norm: Column,
    limit: Column = any_of("settings.max_grad_norm", "settings.grad_clip"),
    *,
    rows: int = 20,
    clipped_share: float = 0.9,
) -> Fires:
    """Almost every gradient is clipped, so the clipping limit determines the step size.

    ## What it sees
    The check fires if the gradient norm before clipping is above the declared limit on more than 90% of the last 20
    rows.

    ## Thresholds
    - `rows`: number of rows over which clipped gradients are counted.
    - `clipped_share`: share of clipped gradients, 0 to 1, above which the check fires.

    ## Why it matters
    If almost every gradient is clipped, all gradients have the same norm, and differences between hard and easy batches
    are lost. With Adam, the scale of the gradient cancels out anyway. Therefore, constant clipping is not a defect in
    itself.

    ## Example
    ```text
    settings.max_grad_norm: 1.0
    grad_norm: 3x20
    ```
    Info at step 20: 100% of the gradients in the last 20 rows exceeded the clipping limit of 1 (measured before
    clipping).

    ```text
    settings.max_grad_norm: 1.0
    grad_norm: 0.8x20
    ```
    No finding.

    ## Known false alarms
    No false alarm is known. If a log contains the norm after clipping, which never exceeds the limit, the check is
    silent.

    ## Remedy
    No change is needed. To clip fewer gradients, raise the limit: in TRL, set `max_grad_norm=1.0`; in verl, set
    `actor.grad_clip=1.0`. Do not tune the learning rate to the gradient norm.

    ## Sources
    Derived; TRL and verl log the norm before clipping.
    """
    clipped = moving_mean(grad_norm > limit, rows)
    return fires(
        clipped > clipped_share,
        "{clipped:.0%} of the gradients in the last {rows} rows exceeded the clipping limit of {limit:.3g} "
        "(measured before clipping).",
        hold=(1, 1),
        clipped=clipped,
        rows=rows,
        limit=limit,
    )
