from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.columns import Column, is_any
from grpo_doctor.remedies import remedy


@check(
    "CFG019",
    severity="info",
    confidence="high",
    remedies=(
        remedy(
            "whole-mini-batches",
            "Make the rollout a multiple of the mini-batch",
            verl="data.train_batch_size a multiple of actor_rollout_ref.actor.ppo_mini_batch_size",
            by_hand="batch % mini-batch == 0",
            evidence="EasyR1 and SkyRL refuse to start; verl makes a last update of the rest; slime drops the rest",
            source="EasyR1 ray_trainer.py; SkyRL train/utils/utils.py; slime ray/rollout.py",
        ),
    ),
)
def rollout_not_whole_mini_batches(
    update: Column = any_of("settings.update_prompts"),
    rollout: Column = any_of("settings.rollout_prompts"),
    framework: Column = any_of("settings.framework"),
) -> Fires:
    """The rollout is no whole number of mini-batches.

    ## What it sees
    Prompts of a rollout that the prompts of a mini-batch do not divide: info; an error for EasyR1 and SkyRL. Of slime,
    whose batch counts responses, those of that many prompts.

    ## Why it matters
    The last update rests on the rest alone and has the same step size. EasyR1 and SkyRL refuse to start; slime trains
    on no more than whole batches and drops the responses that are left.

    ## Known false alarms
    verl trains on; the uneven last update is rarely felt.

    ## Remedy
    A multiple.

    ## Sources
    EasyR1 `ray_trainer.py` (`rollout_batch_size % global_batch_size`); SkyRL `train/utils/utils.py`;
    slime `ray/rollout.py` (trims to a multiple of `global_batch_size`).
    """
    uneven = (rollout > update) & (rollout % update != 0)
    return fires(
        uneven,
        "A rollout of {rollout:.0f} prompts is no whole number of mini-batches of {update:.0f}.",
        hold=(1, 1),
        error=uneven & is_any(framework, "EasyR1", "SkyRL"),
        rollout=rollout,
        update=update,
    )
