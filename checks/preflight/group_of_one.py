from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column


@check("CFG013", severity="error", confidence="high")
def group_of_one(
    group_size: Column,
    grouped: Column = any_of("settings.group_baseline"),
    framework: Column = any_of("settings.framework"),
    refuses: Column = any_of("settings.refuses_group_of_one", optional=True),
) -> Fires:
    """The trainer refuses a group of one response: there is nothing to compare it with.

    ## What it sees
    One response per prompt in a configuration of TRL, Unsloth, OpenRLHF or ms-swift whose estimator takes its baseline
    from the group.

    ## Why it matters
    The advantage is a response's reward less the mean of its group. Of one response that is 0, and these trainers
    raise an error at the start, after the queue and the download.

    ## Known false alarms
    None known. GAE, REINFORCE and ReMax need no group and are left out; so is ms-swift's distillation with a teacher,
    and an agent's function of OpenRLHF, which may make groups of its own. What verl does with one response (the raw
    reward as advantage) is told by CFG001.

    ## Remedy
    8 responses per prompt.

    ## Sources
    TRL `GRPOConfig.__post_init__`: "GRPO requires at least 2 generations per prompt"; ms-swift `rlhf_args.py`:
    "num_generations must be greater than 1 for GRPO"; OpenRLHF `train_ppo_ray.py`.
    """
    return fires(
        (group_size <= 1) & (grouped == 1) & (refuses == 1),
        "{framework} refuses to train on groups of {k:.0f}: no response has another to be compared with.",
        hold=(1, 1),
        k=group_size,
        framework=framework,
    )
