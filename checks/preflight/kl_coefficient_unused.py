from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column, where


@check("CFG021", severity="info", confidence="medium")
def kl_coefficient_unused(
    coefficient: Column = any_of("settings.kl_coef"),
    loss: Column = any_of("settings.use_kl_loss"),
    reward: Column = any_of("settings.use_kl_in_reward", optional=True),
    assumed: Column = any_of("settings.kl_loss_by_default", optional=True),
) -> Fires:
    """A KL coefficient is set, but no KL term is enabled.

    ## What it sees
    In verl, slime, SkyRL or ROLL, the KL loss coefficient is above 0 while the KL loss is off and the reward has no KL.
    It is a warning if the configuration does not set the switch at all.

    ## Why it matters
    The configuration suggests a pull towards the reference that does not exist. The log shows no KL or a meaningless
    one.

    ## Example
    ```shell
    python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo actor_rollout_ref.actor.kl_loss_coef=0.001 \\
      actor_rollout_ref.actor.use_kl_loss=False algorithm.use_kl_in_reward=False
    ```
    Info: The KL coefficient (0.001) has no effect: the KL loss is off.

    ```shell
    python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo actor_rollout_ref.actor.kl_loss_coef=0.001 \\
      actor_rollout_ref.actor.use_kl_loss=True algorithm.use_kl_in_reward=False
    ```
    No finding.

    ## Known false alarms
    None: if the KL term was turned off on purpose, the coefficient is only a leftover, and the severity is info.

    ## Remedy
    Enable the KL loss, or remove the coefficient.

    ## Sources
    verl-project/verl#3276; verl-project/verl#265; THUDM/slime#397.
    """
    unused = (coefficient > 0) & (loss == 0) & ~(reward == 1)
    return fires(
        unused,
        "The KL coefficient ({coefficient:.3g}) has no effect: the KL loss is off{how}.",
        warning=unused & (assumed == 1),
        coefficient=coefficient,
        how=where(assumed == 1, " by default", ""),
    )
