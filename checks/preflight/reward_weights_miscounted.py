from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column


@check("CFG029", severity="error", confidence="high")
def reward_weights_miscounted(
    weights: Column = any_of("settings.reward_weights_count"),
    functions: Column = any_of("settings.reward_functions_count"),
) -> Fires:
    """There are more or fewer reward weights than reward functions.

    ## What it sees
    Both lists stand in the configuration and differ in length.

    ## Why it matters
    The trainer refuses to start; a hand-written one may pair weights with the wrong functions.

    ## Known false alarms
    None known.

    ## Remedy
    One weight for each function.

    ## Sources
    TRL `grpo_trainer.py`: "Number of reward weights must match number of reward functions".
    """
    return fires(
        weights != functions,
        "{weights:.0f} reward weights stand beside {functions:.0f} reward functions.",
        hold=(1, 1),
        weights=weights,
        functions=functions,
    )
