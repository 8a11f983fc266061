from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column, where


@check("CFG015", severity="warning", confidence="medium")
def unknown_setting(
    names: Column = any_of("settings.unknown_settings"),
    dropped: Column = any_of("settings.drops_unknown", optional=True),
) -> Fires:
    """The configuration has keys that the trainer never had.

    ## What it sees
    Arguments of `GRPOConfig` that none of TRL 0.14 to 1.16, transformers 4.40 to 5.23 and Unsloth takes.
    Info where the script itself asks the class for its arguments, or catches the TypeError: it knows that some are
    dropped.

    ## Why it matters
    A dataclass refuses them with a TypeError; where something filters them first, the default is used in silence.

    ## Known false alarms
    Forks of TRL with settings of their own; subclasses that are called GRPOConfig as well.

    ## Remedy
    The right name; the nearest is told.

    ## Sources
    TRL `GRPOConfig` from v0.14.0 to v1.16.0; transformers `TrainingArguments`.
    """
    return fires(
        (names == names) & ~(dropped == 1),
        "GRPOConfig never took {names}{filtered}.",
        hold=(1, 1),
        info=names == names,
        names=names,
        filtered=where(dropped == 1, ": the script drops what it does not take", ""),
    )
