from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column


@check("CFG018", severity="warning", confidence="high")
def mini_batch_larger_than_rollout(
    update: Column = any_of("settings.update_prompts"),
    rollout: Column = any_of("settings.rollout_prompts"),
    refuses: Column = any_of("settings.refuses_larger_mini_batch"),
    older: Column = any_of("settings.sizes_unchecked", optional=True),
    dynamic: Column = any_of("settings.dynamic_batch", optional=True),
) -> Fires:
    """A mini-batch holds more prompts than the rollout that it is cut from.

    ## What it sees
    verl, EasyR1, SkyRL: prompts of a mini-batch above prompts of a rollout. A warning with verl's dynamic batch size,
    where verl does not test it, and for keys of verl before 0.3, which trained on.

    ## Why it matters
    verl and its kin refuse to start; older versions trained with a gradient accumulation of 0 and NaN.

    ## Known false alarms
    None known.

    ## Remedy
    Mini-batch at most the rollout, and a divisor of it.

    ## Sources
    verl `ActorConfig.validate`; EasyR1 `ray_trainer.py`; SkyRL `train/utils/utils.py`; verl-project/verl PR 552.
    """
    above = (update > rollout) & (refuses == 1)
    return fires(
        above,
        "A mini-batch of {update:.0f} prompts is larger than the rollout of {rollout:.0f}.",
        hold=(1, 1),
        error=above & ~(dynamic == 1) & ~(older == 1),
        update=update,
        rollout=rollout,
    )
