from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column, where


@check("CFG033", severity="info", explains=("ADV012",))
def few_prompts_declared(prompts: Column = any_of("settings.prompts_per_update"), *, prompts_below: float = 8) -> Fires:
    """Each update uses only a few prompts (declared).

    ## What it sees
    Prompts per update, computed from the declared batch size, processes and group size: info below 8, warning at 1 or
    less. CFG008 judges the number that a log records.

    ## Thresholds
    - `prompts_below`: prompts per update below which this is reported.

    ## Why it matters
    Adam makes a full-size step whatever the batch size. With one to three prompts, most of them in zero-variance
    groups, one prompt determines the direction of the step.

    ## Known false alarms
    Small models on small tasks learn with 4 to 8 prompts. The run may use more processes than the configuration
    declares.

    ## Remedy
    Use at least 32 prompts with differing rewards per update: raise the batch size or gradient accumulation.

    ## Sources
    TRL, verl and OpenRLHF recipes; beita6969/colab-grpo.
    """
    return fires(
        prompts < prompts_below,
        "Each update uses only {prompts:.3g} prompt{plural}.",
        warning=prompts <= 1,
        prompts=prompts,
        plural=where(prompts == 1, "", "s"),
    )
