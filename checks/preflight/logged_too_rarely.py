from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column


@check("CFG030", severity="info", confidence="low")
def logged_too_rarely(
    every: Column = any_of("settings.logging_steps"),
    *,
    rare: int = 10,
) -> Fires:
    """Metrics are logged so rarely that a collapse can happen between two rows.

    ## What it sees
    The declared logging interval is above 10 steps.

    ## Thresholds
    - `rare`: steps between two logged rows above which the check fires.

    ## Why it matters
    A GRPO run can collapse within 10 to 50 steps. With one row every 50 steps, the log cannot show which metric changed
    first.

    ## Example
    ```python
    GRPOConfig(num_generations=8, logging_steps=100)
    ```
    Info: Metrics are logged only every 100 steps.

    ```python
    GRPOConfig(num_generations=8, logging_steps=1)
    ```
    No finding.

    ## Known false alarms
    Runs of many thousands of small steps.

    ## Remedy
    Log every step.

    ## Sources
    The checks of this project need 8 to 20 rows.
    """
    return fires(every > rare, "Metrics are logged only every {every:.0f} steps.", every=every)
