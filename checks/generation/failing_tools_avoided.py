from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, began, best, known_median, latest, where


@check("GEN013", severity="warning", confidence="medium", explains=("GEN010",))
def failing_tools_avoided(
    tool_calls_per_response: Column,
    tool_failure_rate: Column,
    step: Column,
    *,
    rows: int = 3,
    used: float = 0.5,
    left: float = 0.5,
    failing: float = 0.3,
) -> Fires:
    """Tool calls often failed, and the policy has learned to call tools less often.

    ## What it sees
    The check fires if tool calls per response (median of 3 rows) fall to at most half of their highest median. The
    highest median must be at least 0.5. In addition, the share of failed calls (median of 3 rows) must have been at
    least 30% when calls were most frequent.

    ## Thresholds
    - `rows`: number of rows over which the medians are computed.
    - `used`: minimum tool calls per response (median) at which the policy counts as using the tool.
    - `left`: maximum ratio of the current median to the highest median at which the policy counts as avoiding the tool.
    - `failing`: minimum share of failed calls, 0 to 1, at the time when calls were most frequent.

    ## Why it matters
    Failed calls lower the reward, whatever the reason for the failure. If the tool or its parser is broken, the policy
    learns to avoid the tool. The policy still avoids it after the tool is fixed.

    ## Example
    ```text
    tool_calls_per_response: 2x10 0.9x10
    tool_failure_rate: 0.4x20
    ```
    Warning at step 11: Tool calls per response fell from a maximum of 2 to 0.9 after 40% of the calls failed.

    ```text
    tool_calls_per_response: 2x20
    tool_failure_rate: 0.4x20
    ```
    No finding.

    ## Known false alarms
    The policy may have called tools at random at first, and now call them only when they help, so that the success rate
    rises.

    ## Remedy
    Count the failures by message and fix the most frequent one first. Then roll back to a checkpoint from before the
    fall in calls. Mask calls that failed for reasons outside the control of the policy.

    ## Sources
    verl-project/verl#4998 (tool calls fall to none); GAIR-NLP/ToRL#27.
    """
    now, failed = known_median(tool_calls_per_response, rows), known_median(tool_failure_rate, rows)
    most = best(now)
    at_most = latest(where(now >= most, failed, float("nan")))
    avoided = (most >= used) & (now <= left * most) & (at_most >= failing)
    return fires(
        avoided,
        "Tool calls per response fell from a maximum of {most:.2g} to {now:.2g} after {at_most:.0%} of the calls "
        "failed.",
        hold=(1, 1),
        onset=began(avoided, tool_calls_per_response <= left * most, step),
        most=most,
        now=now,
        at_most=at_most,
    )
