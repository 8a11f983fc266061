from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, message_of, seen


@check("END001", kind="outcome", severity="error", confidence="high", run_types=("rl", "supervised", "preference"))
def crashed_by_numbers(step: Column, events: Column) -> Fires:
    """The run crashed on a NaN or infinite value.

    ## What it sees
    The check reads the last lines of the log, after the last row of metrics. It fires if sampling rejected NaN or
    infinite probabilities, or if the trainer stopped because a loss or gradient norm was not finite.

    ## Why it matters
    Good rows before a crash do not make a healthy run. The weights were no longer finite when sampling failed, so the
    last checkpoint may contain NaN.

    ## Example
    ```log
    step 1 | reward 0.1 | loss 0.5 | grad_norm 0.9
    step 2 | reward 0.2 | loss 0.4 | grad_norm 0.8
    step 3 | reward 0.2 | loss 0.4 | grad_norm 0.9
    step 4 | reward 0.3 | loss 0.3 | grad_norm 0.7
    RuntimeError: probability tensor contains either `inf`, `nan` or element < 0
    ```
    Error: The run crashed after step 4 with a numerical failure (line 5): RuntimeError: probability tensor contains
    either `inf`, `nan` or element < 0.

    ```log
    step 1 | reward 0.1 | loss 0.5 | grad_norm 0.9
    step 2 | reward 0.2 | loss 0.4 | grad_norm 0.8
    step 3 | reward 0.2 | loss 0.4 | grad_norm 0.9
    step 4 | reward 0.3 | loss 0.3 | grad_norm 0.7
    training finished
    ```
    No finding.

    ## Known false alarms
    A crash in an evaluation with different sampling settings, such as a temperature of 0.

    ## Remedy
    Load the last checkpoint and check that every weight is finite. Divide the learning rate by ten, clip gradients at
    0.2 to 1, and skip updates with an unusually large gradient norm. Train in bf16, not fp16.

    ## Sources
    huggingface/transformers: "probability tensor contains either `inf`, `nan` or element < 0" is raised by
    `torch.multinomial`.
    """
    ended = seen(events, "numerical failure") > 0
    return fires(
        ended,
        "The run crashed after step {step:.0f} with {what}.",
        hold=(1, 1),
        step=step,
        what=message_of(events, "numerical failure"),
    )
