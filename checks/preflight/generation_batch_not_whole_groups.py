import math

from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column, isnan, where, words


@check("CFG017", severity="info", confidence="high")
def generation_batch_not_whole_groups(
    known: Column = any_of("settings.generation_batch", "settings.batch_a_process"),
    group_size: Column = any_of("settings.group_size"),
    whole: Column = any_of("settings.generation_batch", optional=True),
    own: Column = any_of("settings.own_program", optional=True),
) -> Fires:
    """The generation batch is not divisible by the group size.

    ## What it sees
    For TRL, ms-swift and axolotl, the batch is per-device batch x processes x steps per generation, if the number of
    processes is known. For prime-rl, the batch is `orchestrator.batch_size`. The check fires if the batch is not
    divisible by the number of responses per prompt. Severity is info if the command starts a custom script that was not
    read. Such a script may be a fork of an early TRL version, which counts prompts instead of responses. Severity is
    also info if the number of processes is unknown, and the batch of a single process is not divisible. Before TRL
    0.17, gradient accumulation is not part of the product.

    ## Why it matters
    A group cannot be split, so the trainer refuses to start.

    ## Example
    ```shell
    trl grpo --num_processes 3 --num_generations 8 --per_device_train_batch_size 3 --gradient_accumulation_steps 1
    ```
    Error: The generation batch (9 responses) is not divisible by the group size (8).

    ```shell
    trl grpo --num_processes 4 --num_generations 8 --per_device_train_batch_size 4 --gradient_accumulation_steps 1
    ```
    No finding.

    ## Known false alarms
    No false alarm is known, provided that the launcher declares the correct number of processes.

    ## Remedy
    Make batch x processes x accumulation a multiple of the group size.

    ## Sources
    TRL `GRPOConfig.__post_init__`; prime-rl `orchestrator.py`; modelscope/ms-swift#3980.
    """
    alone = isnan(whole)
    uneven = known % group_size != 0
    return fires(
        uneven,
        "The generation batch ({batch:.0f} responses{of}) is not divisible by the group size ({k:.0f}){unless}.",
        error=uneven & ~(own == 1) & ~alone,
        batch=known,
        of=where(alone, " per process", ""),
        k=group_size,
        unless=words(_on, where(alone, known, math.nan), group_size),
    )


def _on(batch: float, group: float) -> str:
    """Return the number of processes for which the batch becomes divisible by the group size."""
    shared = math.gcd(int(batch), int(group)) if math.isfinite(batch + group) else 0
    if not shared:
        return ""
    count = int(group) // shared
    return f"; the trainer starts only with a multiple of {count} processes"
