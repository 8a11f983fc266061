from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column


@check("CFG030", severity="info", confidence="low")
def logged_too_rarely(
    every: Column = any_of("settings.logging_steps"),
    *,
    rare: int = 10,
) -> Fires:
    """Metrics are logged so rarely that a collapse is over before its second row.

    ## What it sees
    A declared logging interval above 10 steps.

    ## Thresholds
    - `rare`: steps between two logged rows.

    ## Why it matters
    A GRPO run collapses within 10 to 50 steps. With a row every 50 nothing tells what moved first.

    ## Known false alarms
    Runs of many thousand small steps.

    ## Remedy
    Every step.

    ## Sources
    Holds of the checks here (8 to 20 rows).
    """
    return fires(every > rare, "Metrics are logged every {every:.0f} steps only.", hold=(1, 1), every=every)
