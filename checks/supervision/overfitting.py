from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, baseline, latest, lowest, moving_min, row


@check(
    "SUP002",
    severity="warning",
    confidence="medium",
    run_types=("supervised", "preference"),
    about=("loss", "eval_loss"),
)
def overfitting(
    eval_loss: Column,
    loss: Column = None,
    eval_gained: Column = None,
    *,
    above: float = 0.1,
    least_evaluations: int = 3,
) -> Fires:
    """The held-out loss rises while the training loss falls.

    ## What it sees
    The check requires three or more evaluations. The check fires if the last two held-out losses are more than 10%
    above the lowest, while the last training loss is below the first. Severity is **info** if a held-out score has
    improved, because the held-out score is the goal.

    ## Thresholds
    - `above`: relative rise above the lowest held-out loss that the last two held-out losses must exceed.
    - `least_evaluations`: minimum number of evaluations.

    ## Why it matters
    The model memorises its training examples. For RL, an overfitted model is a worse starting point than its loss
    suggests, because memorised answers have little entropy.

    ## Example
    ```text
    loss: 2 1.5 1 0.8 0.6 0.4 0.2 0.1
    eval_loss: ? 1.5 ? 1.2 ? 1.4 ? 1.6
    ```
    Warning at step 8: The held-out loss rose from 1.2 to 1.6 while the training loss fell to 0.1.

    ```text
    loss: 2 1.5 1 0.8 0.6 0.4 0.2 0.1
    eval_loss: ? 1.5 ? 1.2 ? 1.1 ? 1.1
    ```
    No finding.

    ## Known false alarms
    With few held-out examples, the held-out loss is noisy. Task accuracy may rise for another epoch after the held-out
    loss starts to rise.

    ## Remedy
    Use the checkpoint with the lowest held-out loss. Train with fewer epochs, more data, a smaller rank or more
    dropout.

    ## Sources
    Textbook knowledge: the held-out loss rises before other metrics get worse. A supervised run of a tiny model in TRL,
    made for this check (`tests/data`).
    """
    low, now = lowest(eval_loss), latest(eval_loss)
    learns = ~(latest(loss) >= baseline(loss, 1))
    rose = (row(eval_loss) >= least_evaluations) & (moving_min(eval_loss, 2) > (1 + above) * low) & (low > 0) & learns
    return fires(
        rose & ~eval_gained,
        "The held-out loss rose from {low:.3g} to {now:.3g} while the training loss fell to {trained:.3g}.",
        info=rose,
        hold=(1, 1),
        clear=1,
        low=low,
        now=now,
        trained=latest(loss),
    )
