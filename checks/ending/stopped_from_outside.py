from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, message_of, seen


@check("END005", kind="remark", severity="info", confidence="high", run_types=("rl", "supervised", "preference"))
def stopped_from_outside(step: Column, events: Column) -> Fires:
    """The run was stopped by a user, a time limit or the scheduler.

    ## What it sees
    The last lines of the log, after the last row of metrics, report an interrupt, a time limit or a kill signal.

    ## Why it matters
    The run is incomplete: its last rows are not the end of its schedule, and the learning-rate schedule or curriculum
    may not be finished.

    ## Example
    ```log
    step 1 | reward 0.1 | loss 0.5 | grad_norm 0.9
    step 2 | reward 0.2 | loss 0.4 | grad_norm 0.8
    step 3 | reward 0.2 | loss 0.4 | grad_norm 0.9
    step 4 | reward 0.3 | loss 0.3 | grad_norm 0.7
    JOB 1 ON n CANCELLED AT 2026 DUE TO TIME LIMIT
    ```
    Info: The run was stopped after step 4 by a time limit (line 5).

    ```log
    step 1 | reward 0.1 | loss 0.5 | grad_norm 0.9
    step 2 | reward 0.2 | loss 0.4 | grad_norm 0.8
    step 3 | reward 0.2 | loss 0.4 | grad_norm 0.9
    step 4 | reward 0.3 | loss 0.3 | grad_norm 0.7
    training finished
    ```
    No finding.

    ## Known false alarms
    Signals that a launcher sends after training has finished.

    ## Remedy
    Resume from the last checkpoint. Save a checkpoint before the time limit of the scheduler.

    ## Sources
    Slurm's `CANCELLED AT ... DUE TO TIME LIMIT`; SIGTERM of Kubernetes and spot machines.
    """
    return fires(
        seen(events, "interrupted", "time limit", "killed") > 0,
        "The run was stopped after step {step:.0f} by {what}.",
        hold=(1, 1),
        step=step,
        what=message_of(events, "interrupted", "time limit", "killed"),
    )
