import math

from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, Trend, baseline, began, fmax, recent_mean, total, where


@check(
    "GEN009",
    severity="warning",
    confidence="medium",
    explains=("STL001", "REW001"),
    explains_from="error",
    invalidates=("conclusions about tool use: most responses were scored without a tool result",),
    run_types=("rl", "evaluation"),
)
def tool_calls_fail(
    tool_failure_rate: Column,
    step: Column,
    reward_mean: Column = None,
    reward_trend: Trend = None,
    tool_calls_per_response: Column = None,
    *,
    most: float = 0.5,
    nearly_all: float = 0.9,
    risen: float = 0.5,
    rows: int = 10,
) -> Fires:
    """Most tool calls fail, so the policy learns from responses without tool results.

    ## What it sees
    The check fires if the share of failed calls over the last 5 rows is above 50%. In addition, the share over the
    whole run must be above 50%, or must have risen by 50 percentage points since the first rows. Severity is info on
    the first row and **warning** from the second row. From row 10, severity is **error** if the share is above 90% and
    the reward is recorded and has not improved. If the share is at most 90%, severity stays info in a run whose reward
    has improved. Rows without tool calls are skipped.

    ## Thresholds
    - `most`: share of failed calls, 0 to 1, above which the check fires.
    - `nearly_all`: share of failed calls, 0 to 1, above which the tools count as unavailable.
    - `risen`: minimum increase in the share of failed calls, compared with the first rows, for a tool to count as
      broken during the run.
    - `rows`: number of rows below which the severity is at most warning.

    ## Why it matters
    A failed call costs tokens and a turn without any benefit. If the tool causes the failures, better calls get no
    higher reward, so the policy learns to avoid the tool.

    ## Example
    ```text
    tool_failure_rate: 0.9x6
    ```
    Warning at step 1: 90% of recent tool calls fail (90% over the whole run).

    ```text
    tool_failure_rate: 0.2x6
    ```
    No finding.

    ## Known false alarms
    In hard tasks, tools may report a program that fails as a failed call. A policy that has just started to call tools
    may make many failing calls.

    ## Remedy
    Count the failures by message. Run one call that is known to succeed before the first rollout, and abort if it
    fails.

    ## Sources
    GAIR-NLP/ToRL#27 (three layers of code hide that the sandbox is missing). TRL counts a call whose tool is unknown,
    or raises, as failed, and answers it with the error (`tools/failure_frequency`).
    """
    share = where(tool_calls_per_response == 0, math.nan, tool_failure_rate)
    n = total(share == share)
    so_far = total(share) / n
    lately = fmax(recent_mean(share, 5), where(n < 5, so_far, math.nan))
    broke = lately - baseline(share) >= risen
    often = (lately > most) & ((so_far > most) | broke)
    always = (lately > nearly_all) & ((so_far > nearly_all) | broke)
    learns = reward_trend.gained & ~reward_trend.fallen
    return fires(
        often & (n > 1) & (always | ~learns),
        "{lately:.0%} of recent tool calls fail ({so_far:.0%} over the whole run).",
        info=often,
        error=always & (n >= rows) & (reward_mean == reward_mean) & ~learns,
        hold=(1, 1),
        suffered=always,
        onset=began(often, share > most, step),
        lately=lately,
        so_far=so_far,
    )
