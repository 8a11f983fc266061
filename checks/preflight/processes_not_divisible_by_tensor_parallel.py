from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column


@check("CFG028", severity="info", confidence="high")
def processes_not_divisible_by_tensor_parallel(
    world: Column = any_of("settings.world_size"),
    parallel: Column = any_of("settings.tensor_parallel"),
    shared: Column = any_of("settings.engine_shares_gpus"),
    launched: Column = any_of("settings.by_command", optional=True),
    apart: Column = any_of("settings.engine_nodes", optional=True),
) -> Fires:
    """The GPUs are not divisible by the engine's tensor parallel size.

    ## What it sees
    verl and EasyR1, whose engine shares the trainer's GPUs: GPUs that the tensor parallel size of the rollout does not
    divide. Info in a document that says one GPU: that number is mostly a placeholder for the one of the command line.
    Silent where the engine has machines of its own (`rollout.nnodes`, `rollout.n_gpus_per_node`).

    ## Why it matters
    The device mesh of the rollout cannot be built, and the run ends while it starts.

    ## Known false alarms
    None known.

    ## Remedy
    A divisor of the number of GPUs.

    ## Sources
    verl `fsdp_workers.py` (rollout device mesh).
    """
    uneven = (world % parallel != 0) & (shared == 1) & ~(apart > 0)
    return fires(
        uneven,
        "{world:.0f} GPUs are not divisible by the tensor parallel size of the engine, {parallel:.0f}.",
        hold=(1, 1),
        error=uneven & ((launched == 1) | (world > 1)),
        world=world,
        parallel=parallel,
    )
