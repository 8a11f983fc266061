from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column


@check("CFG035", severity="warning", confidence="high")
def own_loss_not_called(
    own: Column = any_of("settings.own_loss"),
    fused: Column = any_of("settings.use_liger"),
) -> Fires:
    """A subclass changes the loss, and the fused path never calls it.

    ## What it sees
    A class derived from `GRPOTrainer` with a `_compute_loss` of its own, and `use_liger_kernel=True`
    (`use_liger_loss` before TRL 0.28).

    ## Why it matters
    With the fused loss `compute_loss` calls `compute_liger_loss`: the change is not trained with, and nothing says so.

    ## Known false alarms
    Subclasses that override `compute_liger_loss` too, or another class of the script that is not used.

    ## Remedy
    `use_liger_kernel=False`.

    ## Sources
    huggingface/trl#7270; TRL `GRPOTrainer.compute_loss` from v0.17.0 on.
    """
    return fires(
        (own == own) & (fused == 1),
        "{own} is never called: with the fused (Liger) loss the trainer takes another path.",
        hold=(1, 1),
        own=own,
    )
