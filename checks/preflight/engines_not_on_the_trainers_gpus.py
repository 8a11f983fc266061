from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column


@check("CFG040", severity="error", confidence="high")
def engines_not_on_the_trainers_gpus(
    world: Column = any_of("settings.world_size"),
    engines: Column = any_of("settings.engine_gpus"),
    together: Column = any_of("settings.colocated"),
    fill: Column = any_of("settings.colocated_engines_fill_gpus"),
    apart: Column = any_of("settings.async_level", optional=True),
) -> Fires:
    """Engines that share the trainer's GPUs take more or fewer of them than there are.

    ## What it sees
    OpenRLHF with all models colocated and no asynchronous training: engines times their tensor parallel size are not
    the GPUs of the actor.

    ## Why it matters
    The trainer refuses to start.

    ## Known false alarms
    None known.

    ## Remedy
    As many engines as the actor's GPUs divided by the tensor parallel size.

    ## Sources
    OpenRLHF `openrlhf/cli/train_ppo_ray.py` (assertion under `colocate_all_models`), v0.6.4 to v0.11.0.
    """
    uneven = (world != engines) & (together == 1) & (fill == 1) & ~(apart > 0)
    return fires(
        uneven,
        "Colocated engines take {engines:.0f} GPUs, the actor {world:.0f}.",
        hold=(1, 1),
        engines=engines,
        world=world,
    )
