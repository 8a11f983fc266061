from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column


@check("CFG043", severity="info", confidence="high")
def processes_not_divisible_by_model_parallel(
    world: Column = any_of("settings.world_size"),
    parallel: Column = any_of("settings.model_parallel"),
    launched: Column = any_of("settings.by_command", optional=True),
) -> Fires:
    """The GPUs are not divisible by the product of Megatron's parallel sizes.

    ## What it sees
    verl with Megatron: GPUs that the product of the actor's tensor, pipeline and context parallel size does not
    divide. Info in a document that says one GPU, which its command line mostly changes.

    ## Why it matters
    The parallel groups cannot be built, and the run ends while it starts.

    ## Known false alarms
    None known.

    ## Remedy
    Sizes whose product divides the GPUs.

    ## Sources
    verl `utils/config.py` (`validate_config`); Megatron-LM `core/parallel_state.py` (`initialize_model_parallel`).
    """
    uneven = world % parallel > 0
    return fires(
        uneven,
        "{world:.0f} GPUs are not divisible by the product of the model-parallel sizes, {parallel:.0f}.",
        hold=(1, 1),
        error=uneven & ((launched == 1) | (world > 1)),
        world=world,
        parallel=parallel,
    )
