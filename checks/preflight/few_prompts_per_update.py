from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column


@check("CFG008", severity="info", explains=("ADV012",))
def few_prompts_per_update(groups: Column, *, info_prompts: float = 8, warning_prompts: float = 4) -> Fires:
    """An update rests on a handful of prompts.

    ## What it sees
    Fewer than 8 prompts (groups) a step: info. Fewer than 4: warning.

    ## Thresholds
    - `info_prompts`: prompts a step below which it is an info.
    - `warning_prompts`: prompts a step below which it is a warning.

    ## Why it matters
    Adam makes a full-size step whatever the batch. With three prompts, of which most have equal rewards, the
    direction of that step is the luck of one prompt. How many groups carry signal is judged by ADV012.

    ## Known false alarms
    Logs that count the prompts of one device or one micro-batch. Small models on small tasks learn with 4 to 8.

    ## Remedy
    32 live prompts an update, by a larger batch or by accumulation.

    ## Sources
    TRL, verl and OpenRLHF recipes; beita6969/colab-grpo.
    """
    return fires(
        groups < info_prompts,
        "Each update rests on {groups:.0f} prompts.",
        warning=groups < warning_prompts,
        groups=groups,
    )
