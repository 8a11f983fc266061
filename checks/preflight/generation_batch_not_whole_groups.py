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
    TRL, ms-swift, axolotl: per device batch x processes x steps per generation, where the number of processes is
    known; prime-rl: `orchestrator.batch_size`. Not divisible by the responses per prompt. Info where a script of
    its own is started, whose file was not read: forks of the first versions of TRL count prompts here. Info also where
    the number of processes is not said and one process alone has no whole groups: several may have them together.
    Before TRL 0.18 the accumulated batches do not count.

    ## Why it matters
    A group must not be split: the trainers refuse to start.

    ## Known false alarms
    None known where the number of processes is right. A script that is started with other processes than its launcher
    says is judged by what the launcher says.

    ## Remedy
    Batch x processes x accumulation a multiple of the group size.

    ## Sources
    TRL `GRPOConfig.__post_init__`; prime-rl `orchestrator.py`; modelscope/ms-swift#3980.
    """
    alone = isnan(whole)
    uneven = known % group_size != 0
    return fires(
        uneven,
        "The generation batch of {batch:.0f} responses{of} is not divisible by the group size of {k:.0f}{unless}.",
        hold=(1, 1),
        error=uneven & ~(own == 1) & ~alone,
        batch=known,
        of=where(alone, " a process", ""),
        k=group_size,
        unless=words(_on, where(alone, known, math.nan), group_size),
    )


def _on(batch: float, group: float) -> str:
    """How many processes make whole groups of what one of them generates."""
    shared = math.gcd(int(batch), int(group)) if math.isfinite(batch + group) else 0
    if not shared:
        return ""
    count = int(group) // shared
    return f": it is on {count} processes or a multiple of them, and on others the trainer refuses to start"
