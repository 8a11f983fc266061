from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column, began, lately


@check(
    "GEN011",
    severity="warning",
    confidence="high",
    explains=("REW009", "STL001", "LEN001"),
    explains_from="error",
    invalidates=("mean reward and mean length since step {onset}: they include aborted rollouts",),
    run_types=("rl", "evaluation"),
)
def rollouts_aborted(
    aborted_rate: Column,
    step: Column,
    responses: Column = any_of("settings.responses", optional=True),
    *,
    lost: float = 0.05,
    mostly: float = 0.5,
) -> Fires:
    """Many rollouts are aborted and return no response.

    ## What it sees
    Over the last 5 rows, the check averages the share of aborted rollouts. Severity is **warning** if the share is
    above 5%, and **error** if it is above 50%. A single row is sufficient if it has 30 or more rollouts.

    ## Thresholds
    - `lost`: share of aborted rollouts, 0 to 1, above which the severity is warning. With eight responses per prompt,
      5% of aborted rollouts affect every third group.
    - `mostly`: share of aborted rollouts, 0 to 1, above which the severity is error, because the batch is mostly empty.

    ## Why it matters
    An aborted rollout has no tokens to train on. If an aborted rollout gets a reward of 0, it lowers the mean of its
    group, and the other responses get an undeserved positive advantage.

    ## Example
    ```text
    aborted_rate: 0x10 0.2x10
    ```
    Warning at step 11: 20% of recent rollouts were aborted without a response.

    ```text
    aborted_rate: 0.02x20
    ```
    No finding.

    ## Known false alarms
    Some trainers over-sample by design and cancel the slowest rollouts before the batch is formed.

    ## Remedy
    Drop aborted rollouts before computing rewards and advantages. Find the reason for the aborts in the log of the
    rollout engine.

    ## Sources
    verl 0.9.1 (`response/aborted_ratio`: the share of samples with a response of length 0); prime-rl
    (`train/agg/all/cancelled/mean`).
    """
    now = lately(aborted_rate, responses)
    over, mostly_over = now > lost, now > mostly
    return fires(
        over,
        "{now:.0%} of recent rollouts were aborted without a response.",
        error=mostly_over,
        suffered=mostly_over,
        onset=began(over, aborted_rate > lost, step),
        now=now,
    )
