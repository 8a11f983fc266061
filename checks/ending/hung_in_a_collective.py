from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, message_of, row, seen


@check("END003", kind="risk", severity="warning", confidence="high", run_types=("rl", "supervised", "preference"))
def hung_in_a_collective(step: Column, events: Column, *, rows: int = 8) -> Fires:
    """The run hung because a collective operation timed out.

    ## What it sees
    The check reads the last lines of the log, after the last row of metrics. The watchdog of NCCL or of another backend
    reports that a collective operation timed out. The severity is error. Severity is warning if an earlier line reports
    that training had finished, or if the run was still learning.

    ## Thresholds
    - `rows`: number of rows below which the severity is info, because the run ended before its training could be
      judged.

    ## Why it matters
    The run is incomplete, and every GPU was idle until the timeout.

    ## Example
    ```log
    step 1 | reward 0.1 | loss 0.5 | grad_norm 0.9
    step 2 | reward 0.2 | loss 0.4 | grad_norm 0.8
    step 3 | reward 0.2 | loss 0.4 | grad_norm 0.9
    step 4 | reward 0.3 | loss 0.3 | grad_norm 0.7
    [rank3]:[E] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7)
    ```
    Info: The run hung after step 4 and ended with a collective timeout (line 5).

    ```log
    step 1 | reward 0.1 | loss 0.5 | grad_norm 0.9
    step 2 | reward 0.2 | loss 0.4 | grad_norm 0.8
    step 3 | reward 0.2 | loss 0.4 | grad_norm 0.9
    step 4 | reward 0.3 | loss 0.3 | grad_norm 0.7
    training finished
    ```
    No finding.

    ## Known false alarms
    A long evaluation or checkpoint on one rank while the others wait.

    ## Remedy
    Read the earliest error of any rank: it causes the timeouts of the other ranks. Give all ranks the same number of
    micro-batches.

    ## Sources
    PyTorch, `Watchdog caught collective operation timeout`.
    """
    ended = seen(events, "collective timeout") > 0
    return fires(
        ended & (row(step) >= rows),
        "The run hung after step {step:.0f} and ended with {what}.",
        info=ended,
        error=ended & (row(step) >= rows) & ~(seen(events, "finished") > 0),
        hold=(1, 1),
        step=step,
        what=message_of(events, "collective timeout"),
    )
