from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.columns import Column
from grpo_doctor.remedies import remedy


@check(
    "CFG017",
    severity="info",
    confidence="high",
    remedies=(
        remedy(
            "whole-groups",
            "Make the generation batch a multiple of the group",
            trl="batch a device x processes x gradient_accumulation_steps = a multiple of num_generations",
            verl="data.train_batch_size counts prompts: nothing to do",
            openrlhf="--rollout.batch_size counts prompts: nothing to do",
            by_hand="draw whole groups: batch % K == 0",
            evidence="GRPOConfig raises a ValueError at the start",
            source="huggingface/trl#2858, huggingface/trl#3061, huggingface/open-r1#249",
        ),
    ),
)
def generation_batch_not_whole_groups(
    batch: Column = any_of("settings.generation_batch"),
    group_size: Column = any_of("settings.group_size"),
    own: Column = any_of("settings.own_program", optional=True),
) -> Fires:
    """The responses of a generation batch are no whole number of groups.

    ## What it sees
    TRL, ms-swift, axolotl: per device batch x processes x steps per generation, where the number of processes is
    known; prime-rl: `orchestrator.batch_size`. Not divisible by the responses per prompt. Info where a script of
    its own is started, whose file was not read: forks of the first versions of TRL count prompts here.

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
    uneven = batch % group_size != 0
    return fires(
        uneven,
        "A generation batch of {batch:.0f} responses is no whole number of groups of {k:.0f}.",
        hold=(1, 1),
        error=uneven & ~(own == 1),
        batch=batch,
        k=group_size,
    )
