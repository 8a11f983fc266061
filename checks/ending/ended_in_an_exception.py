from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, message_of, row, seen


@check("END004", kind="risk", severity="warning", confidence="high", run_types=("rl", "supervised", "preference"))
def ended_in_an_exception(step: Column, events: Column, *, rows: int = 8) -> Fires:
    """The run ended with an exception.

    ## What it sees
    The check reads the last lines of the log, after the last row of metrics. They report a traceback, a worker that
    died, or a timeout that END001 to END003 do not cover. The severity is error. Severity is warning if an earlier line
    reports that training had finished, or if the run was still learning.

    ## Thresholds
    - `rows`: number of rows below which the severity is info, because the run ended before its training could be
      judged.

    ## Why it matters
    The run is incomplete, or its last checkpoint was not saved.

    ## Example
    ```log
    step 1 | reward 0.1 | loss 0.5 | grad_norm 0.9
    step 2 | reward 0.2 | loss 0.4 | grad_norm 0.8
    step 3 | reward 0.2 | loss 0.4 | grad_norm 0.9
    step 4 | reward 0.3 | loss 0.3 | grad_norm 0.7
    Traceback (most recent call last):
      File "train.py", line 3
    KeyError: 'answer'
    ```
    Info: The run ended after step 4 with a traceback (line 5): KeyError: 'answer'.

    ```log
    step 1 | reward 0.1 | loss 0.5 | grad_norm 0.9
    step 2 | reward 0.2 | loss 0.4 | grad_norm 0.8
    step 3 | reward 0.2 | loss 0.4 | grad_norm 0.9
    step 4 | reward 0.3 | loss 0.3 | grad_norm 0.7
    training finished
    ```
    No finding.

    ## Known false alarms
    An exception that is raised at exit, after everything was saved.

    ## Remedy
    Read the exception at the named line. Resume from the last checkpoint, after checking that its files are complete.

    ## Sources
    Python's `Traceback (most recent call last)`; Ray's `ActorDiedError`.
    """
    ended = seen(events, "exception") > 0
    return fires(
        ended & (row(step) >= rows),
        "The run ended after step {step:.0f} with {what}.",
        info=ended,
        error=ended & (row(step) >= rows) & ~(seen(events, "finished") > 0),
        hold=(1, 1),
        step=step,
        what=message_of(events, "exception"),
    )
