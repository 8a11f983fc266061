from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column, where


@check("CFG015", severity="warning", confidence="medium")
def unknown_setting(
    names: Column = any_of("settings.unknown_settings"),
    misspelt: Column = any_of("settings.misspelt_settings", optional=True),
    perhaps: Column = any_of("settings.perhaps_misspelt", optional=True),
    dropped: Column = any_of("settings.drops_unknown", optional=True),
) -> Fires:
    """The configuration has keys that the trainer never accepted.

    ## What it sees
    The configuration passes arguments to `GRPOConfig` that no version of TRL (0.14 to 1.16), transformers (4.40 to
    5.23) or Unsloth accepts. It is an error if the name is a misspelling of an argument of `GRPOConfig` itself, because
    the script ends with a TypeError. Severity is info if the script filters arguments by the class, or catches the
    TypeError.

    In a YAML file or a command, an unknown key may belong to another program. There, the check reports only names with
    a typing error: two exchanged letters, one doubled letter, or one missing letter.

    ## Why it matters
    A dataclass refuses such arguments with a TypeError. If a filter removes them first, the default is silently used.

    ## Example
    ```python
    from trl import GRPOConfig
    GRPOConfig(num_generation=8)
    ```
    Error: GRPOConfig has never accepted num_generation (did you mean num_generations?).

    ```python
    from trl import GRPOConfig
    GRPOConfig(num_generations=8)
    ```
    No finding.

    ## Known false alarms
    Forks of TRL with additional settings. Other classes with the name GRPOConfig.

    ## Remedy
    Use the correct name; the finding suggests the closest one.

    ## Sources
    TRL `GRPOConfig` from v0.14.0 to v1.16.0; transformers `TrainingArguments`.
    """
    return fires(
        (names == names) & ~(dropped == 1),
        "{claim} {names}{filtered}.",
        error=(misspelt == 1) & ~(dropped == 1),
        info=names == names,
        names=names,
        claim=where(perhaps == 1, "Probably misspelled:", "GRPOConfig has never accepted"),
        filtered=where(dropped == 1, "; the script drops unknown arguments", ""),
    )
