from grpo_doctor import Fires, check, fires
from grpo_doctor.diagnosis.wording import counted
from grpo_doctor.series import Column, words


@check("CFG008", severity="info", explains=("ADV012",))
def few_prompts_per_update(groups: Column, *, info_prompts: float = 8, warning_prompts: float = 4) -> Fires:
    """The log records only a few prompts per update.

    ## What it sees
    Severity is **info** for fewer than 8 prompts (groups) per step, and **warning** for fewer than 4.

    ## Thresholds
    - `info_prompts`: number of prompts per step below which the severity is info.
    - `warning_prompts`: number of prompts per step below which the severity is warning.

    ## Why it matters
    Adam takes a full-size step, whatever the batch size. If an update has three prompts, and most of them have
    zero-variance groups, a single prompt determines the direction of the step. ADV012 judges how many groups have a
    signal.

    ## Example
    ```text
    groups: 3x10
    group_size: 8x10
    ```
    Warning at step 1: Each update uses only 3 prompts.

    ```text
    groups: 64x10
    group_size: 8x10
    ```
    No finding.

    ## Known false alarms
    Some logs count only the prompts of one device or one micro-batch. Small models on small tasks learn with 4 to 8
    prompts.

    ## Remedy
    Use at least 32 prompts with differing rewards per update. To do this, raise the batch size or the gradient
    accumulation.

    ## Sources
    TRL, verl and OpenRLHF recipes; beita6969/colab-grpo.
    """
    return fires(
        groups < info_prompts,
        "Each update uses only {prompts}.",
        warning=groups < warning_prompts,
        prompts=words(lambda n: counted(int(n), "prompt"), groups),
        groups=groups,
    )
