from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column


@check("CFG064", severity="info", confidence="high", run_types=("rl", "preference"))
def first_update_changes_nothing(
    warmup: Column = any_of("settings.warmup_steps", "settings.warmup_ratio"),
    total: Column = any_of("settings.max_steps"),
    at_zero: Column = any_of("settings.warmup_begins_at_zero"),
    *,
    fewest: int = 10,
) -> Fires:
    """The run is so short that the first update, at learning rate 0, is a large part of it.

    ## What it sees
    A warm-up and at most 10 steps in total, in a trainer with the schedules of transformers, are reported as info. With
    a single step it is a warning.

    ## Thresholds
    - `fewest`: steps in total up to which the check fires.

    ## Why it matters
    The linear warm-up of transformers gives the first update a learning rate of exactly 0. That update changes no
    weight. A run of one step trains nothing, and a comparison of weights before and after finds no difference.

    ## Example
    ```python
    GRPOConfig(num_generations=8, warmup_steps=2, max_steps=10)
    ```
    Info: The first of 10 updates has learning rate 0, because of the warm-up.

    ```python
    GRPOConfig(num_generations=8, warmup_steps=0, max_steps=10)
    ```
    No finding.

    ## Known false alarms
    Smoke tests that only check that the code runs.

    ## Remedy
    Set the warm-up to 0 for short runs.

    ## Sources
    transformers `get_linear_schedule_with_warmup` and its siblings (`current_step / max(1, num_warmup_steps)`).
    """
    short = (at_zero == 1) & (warmup > 0) & (total >= 1) & (total <= fewest)
    return fires(
        short,
        "The first of {total:.0f} updates has learning rate 0, because of the warm-up.",
        hold=(1, 1),
        warning=short & (total == 1),
        total=total,
    )
