from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column, fmin, where


@check("CFG051", severity="warning", confidence="high", run_types=("rl", "preference"))
def warmup_fills_the_run(
    known: Column = any_of("settings.warmup_ratio", "settings.warmup_steps"),
    ratio: Column = any_of("settings.warmup_ratio", optional=True),
    steps: Column = any_of("settings.warmup_steps", optional=True),
    total: Column = any_of("settings.max_steps", optional=True),
    *,
    longest: float = 0.5,
    least_steps: int = 20,
) -> Fires:
    """The learning rate warms up during most of the run.

    ## What it sees
    The check fires if the declared warm-up ratio is at least 0.5. The check also fires if the declared warm-up steps
    are at least half of the declared total steps.

    ## Thresholds
    - `longest`: share of the total steps at or above which a warm-up is too long.
    - `least_steps`: total number of steps at or above which the warm-up is judged.

    ## Why it matters
    The run reaches the declared learning rate late or never, so it looks stable but learns little. A warm-up ratio of
    0.95 is usually a decay or a beta that was entered in the wrong field.

    ## Example
    ```python
    GRPOConfig(num_generations=8, warmup_ratio=0.95)
    ```
    Warning: The learning rate warms up during 95% of the run.

    ```python
    GRPOConfig(num_generations=8, warmup_ratio=0.05)
    ```
    No finding.

    ## Known false alarms
    By design, a short test run may end during its warm-up.

    ## Remedy
    Set the warm-up to 0% to 10% of the total steps.

    ## Sources
    PrimeIntellect-ai/prime-rl#968; PeterGriffinJin/Search-R1#28 (`lr_warmup_steps_ratio=0.95`).
    """
    share = where((steps > 0) & (total >= least_steps), steps / total, ratio)
    return fires(
        (known == known) & (share >= longest) & (share < 1e6),
        "The learning rate warms up during {share:.0%} of the run.",
        share=fmin(share, 1.0),
    )
