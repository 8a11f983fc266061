from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, message_of, row, seen


@check("END002", kind="risk", severity="warning", confidence="high", run_types=("rl", "supervised", "preference"))
def ran_out_of_memory(step: Column, events: Column, *, rows: int = 8) -> Fires:
    """The run ran out of memory.

    ## What it sees
    The check reads the last lines of the log, after the last row of metrics. They report that a GPU was out of memory,
    or that the system killed a process because the machine ran out of memory. The severity is error. Severity is
    warning if an earlier line reports that training had finished, or if the run was still learning.

    ## Thresholds
    - `rows`: number of rows below which the severity is info, because the run ended before its training could be
      judged.

    ## Why it matters
    The run is incomplete. If responses grow, the run will crash again at the same length with these settings.

    ## Example
    ```log
    step 1 | reward 0.1 | loss 0.5 | grad_norm 0.9
    step 2 | reward 0.2 | loss 0.4 | grad_norm 0.8
    step 3 | reward 0.2 | loss 0.4 | grad_norm 0.9
    step 4 | reward 0.3 | loss 0.3 | grad_norm 0.7
    torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB
    ```
    Info: The run ended after step 4 with a GPU out-of-memory error (line 5): torch.OutOfMemoryError: CUDA out of
    memory. Tried to allocate 2.00 GiB.

    ```log
    step 1 | reward 0.1 | loss 0.5 | grad_norm 0.9
    step 2 | reward 0.2 | loss 0.4 | grad_norm 0.8
    step 3 | reward 0.2 | loss 0.4 | grad_norm 0.9
    step 4 | reward 0.3 | loss 0.3 | grad_norm 0.7
    training finished
    ```
    No finding.

    ## Known false alarms
    An error that was caught and retried, in a log that ends at that point for another reason.

    ## Remedy
    Halve the micro-batch and double the accumulation. Lower the share of GPU memory reserved for the rollout engine. If
    responses grew, limit their length.

    ## Sources
    PyTorch, `torch.OutOfMemoryError`; the Linux kernel's `Out of memory: Killed process`.
    """
    ended = seen(events, "out of memory") > 0
    return fires(
        ended & (row(step) >= rows),
        "The run ended after step {step:.0f} with {what}.",
        info=ended,
        error=ended & (row(step) >= rows) & ~(seen(events, "finished") > 0),
        hold=(1, 1),
        step=step,
        what=message_of(events, "out of memory"),
    )
