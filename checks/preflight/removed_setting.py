from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column, words


@check("CFG016", severity="info", confidence="high")
def removed_setting(
    names: Column = any_of("settings.removed_settings"),
    pinned: Column = any_of("settings.pinned_version", optional=True),
    beside: Column = any_of("settings.pinned_beside", optional=True),
    dropped: Column = any_of("settings.drops_unknown", optional=True),
) -> Fires:
    """The configuration has keys that the trainer's version does not take.

    ## What it sees
    Arguments of TRL's `GRPOConfig`, hydra overrides of verl, flags of OpenRLHF and of ms-swift that some version took
    and today's does not: info. An error where the file itself pins a version that does not take them, no longer or
    not yet; a warning where the requirements beside it do; info again where the script itself asks the class for its
    arguments, or catches the TypeError. Silent for Unsloth, which drops them with a warning of its own, for verl's
    `+key=value`, which adds what is not there, and where a command brings a document of its own.

    ## Why it matters
    With an unpinned trainer the script that ran last month ends today in a TypeError, in hydra's "Key is not in
    struct" or in "unrecognized arguments".

    ## Known false alarms
    Requirements of another program in the same folder; a fork that kept the key.

    ## Remedy
    The name of today, or a pinned version.

    ## Sources
    TRL `grpo_config.py` at every tag from v0.14.0; verl `trainer/config/ppo_trainer.yaml`, v0.2 to v0.9.0; OpenRLHF
    `cli/train_ppo_ray.py`, v0.5.0 to v0.11.0; ms-swift, v3.0 to v4.5; huggingface/trl#4358;
    axolotl-ai-cloud/axolotl#3386.
    """
    known = (pinned == pinned) & ~(dropped == 1)
    return fires(
        names == names,
        "{who} does not take {names}.",
        hold=(1, 1),
        warning=known,
        error=known & ~(beside == 1),
        names=names,
        who=words(lambda version: version if isinstance(version, str) else "The current trainer", pinned),
    )
