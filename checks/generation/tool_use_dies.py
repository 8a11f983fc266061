from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, Trend, began, best, known_median


@check(
    "GEN010",
    severity="warning",
    confidence="medium",
    explains=("REW009", "REW015", "DIV008"),
    invalidates=("checkpoints saved since step {onset}, if the task needs the tools",),
)
def tool_use_dies(
    tool_calls_per_response: Column,
    step: Column,
    reward_trend: Trend = None,
    eval_fallen: Column = None,
    *,
    rows: int = 3,
    used: float = 0.5,
    left: float = 0.1,
) -> Fires:
    """The policy has stopped calling its tools.

    ## What it sees
    The check fires if the tool calls per response (median of 3 rows) are at most 10% of their highest median. The
    highest median must be at least 0.5. Severity is **error** if the reward or the held-out score has fallen, **info**
    if the reward has improved and neither has fallen, and **warning** otherwise. The reported onset is the step at
    which calls last fell below half of the highest median.

    ## Thresholds
    - `rows`: number of rows with recorded calls over which the median is computed; many trainers count calls only at
      evaluations.
    - `used`: minimum calls per response (median) at which the policy counts as using the tool. With fewer calls, a
      small batch may contain no calls by chance.
    - `left`: maximum ratio of the current median to the highest median at which calls count as stopped.

    ## Why it matters
    An agent that no longer searches or computes gives answers from memory. The training reward may even rise on prompts
    whose answers the policy has memorised.

    ## Example
    ```text
    tool_calls_per_response: 4x20 0.4x3
    ```
    Warning at step 21: The policy has stopped calling its tools: calls per response fell from a maximum of 4 to 0.4.

    ```text
    tool_calls_per_response: 4x20 3x3
    ```
    No finding.

    ## Known false alarms
    The prompts of a curriculum may become easier, so that the policy needs fewer calls. By design, an explicit cost per
    call reduces the number of calls.

    ## Remedy
    Roll back to a checkpoint from before the fall in calls. Read responses without tool calls. Check how many calls
    fail, and check that the tool's output is masked out of the loss.

    ## Sources
    TiandaSun/KG_GRPO, results/task11_goodhart_data.json: 5 calls per response up to step 800, 0.07 at step 1000.
    """
    now = known_median(tool_calls_per_response, rows)
    most = best(now)
    gone = (most >= used) & (now <= left * most)
    worse = reward_trend.fallen | eval_fallen
    return fires(
        gone & (worse | ~reward_trend.gained),
        "The policy has stopped calling its tools: calls per response fell from a maximum of {most:.2g} to {now:.2g}.",
        info=gone,
        error=gone & worse,
        hold=(1, 1),
        onset=began(gone, tool_calls_per_response <= most / 2, step),
        most=most,
        now=now,
    )
