from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column, is_any


@check("CFG027", severity="info", confidence="high")
def eval_batch_not_whole_groups(
    batch: Column = any_of("settings.eval_batch"),
    group_size: Column = any_of("settings.eval_group_size", "settings.group_size"),
    evaluation: Column = any_of("settings.evaluation"),
    own: Column = any_of("settings.own_program", optional=True),
    checked: Column = any_of("settings.checks_eval_batch", optional=True),
) -> Fires:
    """The evaluation batch is not divisible by the group size.

    ## What it sees
    TRL with an evaluation declared on: evaluation batch per device x processes that the responses per prompt do not
    divide. Info where a script of its own is started, whose file was not read.

    ## Why it matters
    The trainer refuses to start; older versions end at the first evaluation, hours into the run.

    ## Known false alarms
    None known where the number of processes is right.

    ## Remedy
    A multiple of the group size.

    ## Sources
    TRL `GRPOConfig.__post_init__`.
    """
    on = ~is_any(evaluation, "no", "No", "NO") & (checked == 1)
    uneven = on & (batch % group_size != 0)
    return fires(
        uneven,
        "The evaluation batch of {batch:.0f} is not divisible by the group size of {k:.0f}.",
        hold=(1, 1),
        error=uneven & ~(own == 1),
        batch=batch,
        k=group_size,
    )
