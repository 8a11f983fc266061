from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, isnan, previous, where


@check(
    "UPD002",
    kind="defect",
    severity="error",
    confidence="medium",
    explains=("STL001", "STL006", "KL003"),
    withholds={
        "lower-learning-rate": "the weights do not change at all",
        "raise-group-size": "the weights do not change at all",
    },
    invalidates=("update counts in this log",),
)
def update_event_not_an_optimizer_step(
    update_applied: Column,
    step: Column,
    weight_delta: Column = None,
    optimizer_step: Column = None,
    learning_rate: Column = None,
    grad_norm: Column = None,
) -> Fires:
    """Steps that the log marks as updates do not change the weights.

    ## What it sees
    The check uses the steps that are recorded as updates (`update_applied`). The check fires if 3 of the last 5
    updates have a weight_delta of exactly 0 or an unchanged optimizer step counter. Updates with a learning rate or a
    gradient of exactly 0 do not count, because they should not change the weights.

    ## Why it matters
    Every statement about what happens after an update depends on a correct `update_applied`. Without an optimizer step,
    optimisation cannot be the cause of later problems, and the run does not learn.

    ## Example
    ```text
    update_applied: 1x5
    optimizer_step: 1x5
    ```
    Error at step 2: Steps logged as updates do not change the weights (change at step 5: 0).

    ```text
    update_applied: 1x5
    optimizer_step: 1..5
    ```
    No finding.

    ## Known false alarms
    Some logs count the micro-batches of an accumulation as updates.

    ## Remedy
    Log the update after `optimizer.step()` returns, with the norm of the weight change. Check that the optimizer
    contains the parameters of the trained model. Build the optimizer after wrapping the model.

    ## Sources
    beita6969/colab-grpo: its first "update" had a learning rate of 0. PyTorch GradScaler documentation.
    """
    moved = where(isnan(weight_delta), optimizer_step - previous(optimizer_step), weight_delta)
    empty = (update_applied == 1) & (moved == 0) & ~(learning_rate == 0) & ~(grad_norm == 0)
    return fires(
        empty,
        "Steps logged as updates do not change the weights (change at step {step}: {moved:.3g}).",
        hold=(3, 5),
        moved=moved,
        step=step,
    )
