from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column


@check("CFG022", severity="warning", confidence="medium")
def kl_counted_twice(
    loss: Column = any_of("settings.use_kl_loss"),
    reward: Column = any_of("settings.use_kl_in_reward"),
    coefficient: Column = any_of("settings.kl_coef", optional=True),
    other: Column = any_of("settings.kl_reward_coef", optional=True),
) -> Fires:
    """The KL to the reference is in the loss and in the reward.

    ## What it sees
    Declared: a KL loss and a KL in the reward, neither with a coefficient of 0.

    ## Why it matters
    The pull is the sum of two terms with two coefficients, and a log of one of them tells half of it.

    ## Known false alarms
    Recipes that want both; none of the documented ones does.

    ## Remedy
    One of the two.

    ## Sources
    verl-project/verl#265; verl `validate_config`.
    """
    return fires(
        (loss == 1) & (reward == 1) & ~(coefficient == 0) & ~(other == 0),
        "The KL term is counted twice: in the loss and in the reward.",
        hold=(1, 1),
    )
