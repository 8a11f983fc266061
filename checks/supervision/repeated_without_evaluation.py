from grpo_doctor import Fires, check, fires
from grpo_doctor.diagnosis.wording import number
from grpo_doctor.series import Column, latest, total, words


@check("SUP003", vital=True, severity="info", confidence="medium", run_types=("supervised", "preference"))
def repeated_without_evaluation(
    epoch: Column, eval_loss: Column = None, eval_score: Column = None, *, passes: float = 1.5
) -> Fires:
    """The training data were repeated, and the log has no held-out evaluation.

    ## What it sees
    The check fires if at least 1.5 epochs have passed, and neither a held-out loss nor a held-out score has been
    logged. Severity is always **info**, because repeating the data is common, and only an evaluation can show whether
    it did harm.

    ## Thresholds
    - `passes`: number of epochs at or above which the check fires. At 1.5, half of the data have been used twice.

    ## Why it matters
    Starting at the second epoch, a lower training loss or a higher reward accuracy may be the result of memorisation,
    because the training examples repeat. Preference losses often drop at the start of each new epoch and stay level
    within the epoch.

    ## Example
    ```text
    epoch: 0->3x30
    loss: 0.69->0.03x30
    ```
    Info at step 16: The training data were repeated (3 epochs), and the log has no held-out evaluation, so a gain may
    be memorisation.

    ```text
    epoch: 0->1x30
    loss: 0.69->0.03x30
    ```
    No finding.

    ## Known false alarms
    Evaluations may be logged to another file. If epochs are counted from 1, the second epoch counts as 2 from its first
    row.

    ## Remedy
    Hold out some of the data, evaluate on them every few steps, and keep the checkpoint with the best result.

    ## Sources
    arXiv 2305.18290, section 6 (one epoch). Public DPO runs whose loss falls mainly at the start of each epoch:
    shourikb/RLAIFGeneration (0.69, 0.16, 0.04 and 0.01 in the first four epochs); azige1/FinQA (eight epochs).
    """
    evaluated = total(eval_loss == eval_loss) + total(eval_score == eval_score)
    return fires(
        (latest(epoch) >= passes) & ~(evaluated > 0),
        "The training data were repeated ({epochs} epochs), and the log has no held-out evaluation, so a gain may be "
        "memorisation.",
        hold=(1, 1),
        clear=1,
        epochs=words(_passed, latest(epoch)),
    )


def _passed(epoch: float) -> str:
    return number(epoch, 2)
