from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column, where


@check("CFG021", severity="info", confidence="medium")
def kl_coefficient_unused(
    coefficient: Column = any_of("settings.kl_coef"),
    loss: Column = any_of("settings.use_kl_loss"),
    reward: Column = any_of("settings.use_kl_in_reward", optional=True),
    assumed: Column = any_of("settings.kl_loss_by_default", optional=True),
) -> Fires:
    """A KL coefficient is declared, but no KL term is on.

    ## What it sees
    verl, slime, SkyRL, ROLL: a coefficient of the KL loss above 0 while the KL loss is off and the reward has none. A
    warning where the switch is not in the configuration at all, so that nobody decided it.

    ## Why it matters
    The author counts on a pull towards the reference that does not exist; the log shows no KL or a meaningless one.

    ## Known false alarms
    A coefficient left over from a recipe in which the switch was turned off on purpose: info.

    ## Remedy
    Turn the switch on, or remove the coefficient.

    ## Sources
    verl-project/verl#3276; verl-project/verl#265; THUDM/slime#397.
    """
    unused = (coefficient > 0) & (loss == 0) & ~(reward == 1)
    return fires(
        unused,
        "The KL coefficient of {coefficient:.3g} does nothing: the KL loss is off{how}.",
        hold=(1, 1),
        warning=unused & (assumed == 1),
        coefficient=coefficient,
        how=where(assumed == 1, " by default", ""),
    )
