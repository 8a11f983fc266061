from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column


@check("CFG029", severity="error", confidence="high")
def reward_weights_miscounted(
    weights: Column = any_of("settings.reward_weights_count"),
    functions: Column = any_of("settings.reward_functions_count"),
) -> Fires:
    """The number of reward weights differs from the number of reward functions.

    ## What it sees
    The configuration has both lists, with different lengths.

    ## Why it matters
    The trainer refuses to start; a custom trainer may pair weights with the wrong functions.

    ## Known false alarms
    None known.

    ## Remedy
    Give one weight per reward function.

    ## Sources
    TRL `grpo_trainer.py`: "Number of reward weights must match number of reward functions".
    """
    return fires(
        weights != functions,
        "The number of reward weights ({weights:.0f}) differs from the number of reward functions ({functions:.0f}).",
        weights=weights,
        functions=functions,
    )
