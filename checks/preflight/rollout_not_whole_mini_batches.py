from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column, isnan, where


@check("CFG019", severity="info", confidence="high")
def rollout_not_whole_mini_batches(
    update: Column = any_of("settings.update_prompts", "settings.update_responses"),
    prompts: Column = any_of("settings.rollout_prompts"),
    responses: Column = any_of("settings.rollout_responses", optional=True),
    in_prompts: Column = any_of("settings.update_prompts", optional=True),
    refuses: Column = any_of("settings.refuses_uneven_mini_batch", optional=True),
    drops: Column = any_of("settings.drops_uneven_rest", optional=True),
) -> Fires:
    """The rollout is not divisible by the mini-batch size.

    ## What it sees
    The check fires if the number of prompts or responses in a rollout is not divisible by the number in a mini-batch.
    Severity is error for EasyR1 and SkyRL, warning for slime, and info for other trainers.

    ## Why it matters
    The last update uses only the remainder of the rollout, but takes a step of the same size. In slime, the remainder
    is discarded. EasyR1 and SkyRL refuse to start.

    ## Example
    ```shell
    python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=256 \\
      actor_rollout_ref.actor.ppo_mini_batch_size=96 actor_rollout_ref.rollout.n=8
    ```
    Info: The rollout (256 prompts) is not divisible by the mini-batch size (96).

    ```shell
    python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=256 \\
      actor_rollout_ref.actor.ppo_mini_batch_size=64 actor_rollout_ref.rollout.n=8
    ```
    No finding.

    ## Known false alarms
    verl trains anyway, and the smaller last update rarely matters.

    ## Remedy
    Make the rollout size a multiple of the mini-batch size.

    ## Sources
    EasyR1 `ray_trainer.py` (`rollout_batch_size % global_batch_size`); SkyRL `train/utils/utils.py`; slime
    `ray/rollout.py` (`trim_len`).
    """
    by_response = isnan(in_prompts)
    rollout = where(by_response, responses, prompts)
    uneven = (rollout > update) & (rollout % update != 0)
    return fires(
        uneven,
        "The rollout ({rollout:.0f} {what}) is not divisible by the mini-batch size ({update:.0f}).",
        warning=uneven & (drops == 1),
        error=uneven & (refuses == 1),
        rollout=rollout,
        what=where(by_response, "responses", "prompts"),
        update=update,
    )
