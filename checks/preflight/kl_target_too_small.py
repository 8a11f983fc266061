from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column


@check("CFG065", severity="warning", confidence="medium", run_types=("rl",))
def kl_target_too_small(target: Column = any_of("settings.kl_target"), *, smallest: float = 1e-3) -> Fires:
    """The KL target is below the KL of a single update.

    ## What it sees
    A `target_kl` above 0 and below 0.001 is declared, as the target of an adaptive KL coefficient or as the KL at which
    the passes over a rollout stop.

    ## Thresholds
    - `smallest`: KL target, in nats, below which the check fires.

    ## Why it matters
    One update at the usual learning rate moves the policy by about 0.001 nats per token. An adaptive coefficient then
    grows at every step until the penalty exceeds the reward. Early stopping ends each rollout after the first pass.

    ## Example
    ```shell
    python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo algorithm.use_kl_in_reward=True \\
      algorithm.kl_ctrl.type=adaptive algorithm.kl_ctrl.target_kl=1e-4
    ```
    Warning: The KL target (0.0001) is below the KL of a single update.

    ```shell
    python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo algorithm.use_kl_in_reward=True \\
      algorithm.kl_ctrl.type=adaptive algorithm.kl_ctrl.target_kl=0.1
    ```
    No finding.

    ## Known false alarms
    Trainers that divide the KL by a large number before they compare it.

    ## Remedy
    Set the target to 0.01 to 0.1 nats per token, or use a fixed coefficient.

    ## Sources
    arXiv 1909.08593, section 2.2 (adaptive coefficient); TRL `PPOConfig` before 0.12 (`target=6` per response,
    `target_kl=1`); verl `algorithm.kl_ctrl.target_kl=0.1`.
    """
    return fires(
        (target > 0) & (target < smallest),
        "The KL target ({target:.2g}) is below the KL of a single update.",
        hold=(1, 1),
        target=target,
    )
