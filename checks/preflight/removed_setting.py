from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column, words


@check("CFG016", severity="info", confidence="high")
def removed_setting(
    names: Column = any_of("settings.removed_settings"),
    pinned: Column = any_of("settings.pinned_version", optional=True),
    beside: Column = any_of("settings.pinned_beside", optional=True),
    dropped: Column = any_of("settings.drops_unknown", optional=True),
) -> Fires:
    """The configuration has keys that the trainer's version does not accept.

    ## What it sees
    The check covers arguments of TRL's `GRPOConfig`, Hydra overrides of verl, and options of OpenRLHF and ms-swift.
    Severity is **info** for a name that an earlier version accepted but the current version does not. Severity is error
    if the file itself pins a version that does not accept the name. Severity is warning if requirements in the same
    folder pin a version that does not accept the name. Severity is info if the script drops arguments that the class
    does not have, or catches the TypeError. The check skips Unsloth, which drops removed keys with a warning, and
    verl's `+key=value`, which adds missing keys. The check also skips commands that pass their own configuration file.

    ## Why it matters
    If the trainer is not pinned, a script that ran last month may fail now. The error is a TypeError, "Key is not in
    struct" from Hydra, or "unrecognized arguments".

    ## Example
    ```python
    from trl import GRPOConfig
    GRPOConfig(num_generations=8, use_liger_loss=True)
    ```
    Info: The current trainer does not accept use_liger_loss (removed in TRL 0.28; instead: use_liger_kernel).

    ```python
    from trl import GRPOConfig
    GRPOConfig(num_generations=8, use_liger_kernel=True)
    ```
    No finding.

    ## Known false alarms
    Requirements in the folder may belong to another program. A fork may have kept the key.

    ## Remedy
    Use the current name, or pin a version that accepts the key.

    ## Sources
    TRL `grpo_config.py` at every tag from v0.14.0; verl `trainer/config/ppo_trainer.yaml`, v0.2 to v0.9.0; OpenRLHF
    `cli/train_ppo_ray.py`, v0.5.0 to v0.11.0; ms-swift, v3.0 to v4.5; huggingface/trl#4358;
    axolotl-ai-cloud/axolotl#3386.
    """
    known = (pinned == pinned) & ~(dropped == 1)
    return fires(
        names == names,
        "{who} does not accept {names}.",
        warning=known,
        error=known & ~(beside == 1),
        names=names,
        who=words(lambda version: version if isinstance(version, str) else "The current trainer", pinned),
    )
