from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column, where


@check("CFG033", severity="info", explains=("ADV012",))
def few_prompts_declared(prompts: Column = any_of("settings.prompts_per_update"), *, prompts_below: float = 8) -> Fires:
    """Each update uses a handful of prompts.

    ## What it sees
    Prompts of an update, worked out from the declared batch, processes and group: fewer than 8; a warning at 1 or
    less. What a log records of them is judged by CFG008.

    ## Thresholds
    - `prompts_below`: prompts a step below which it is told.

    ## Why it matters
    Adam makes a full-size step whatever the batch. With one to three prompts, of which most have equal rewards, the
    direction of that step is the luck of one prompt.

    ## Known false alarms
    Small models on small tasks learn with 4 to 8; more processes than the configuration says.

    ## Remedy
    32 live prompts an update, by a larger batch or by accumulation.

    ## Sources
    TRL, verl and OpenRLHF recipes; beita6969/colab-grpo.
    """
    return fires(
        prompts < prompts_below,
        "Each update uses {prompts:.3g} prompt{plural}.",
        hold=(1, 1),
        warning=prompts <= 1,
        prompts=prompts,
        plural=where(prompts == 1, "", "s"),
    )
