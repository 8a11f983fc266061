from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column, began, lately, words


@check(
    "GEN012",
    severity="warning",
    confidence="high",
    explains=("REW009", "STL001", "REW001", "ADV003"),
    explains_from="error",
    invalidates=("the mean reward since step {onset}: failed environments count as 0",),
    run_types=("rl", "evaluation"),
)
def environment_failures_scored(
    environment_failure_rate: Column,
    step: Column,
    failures_at_floor: Column = None,
    responses: Column = any_of("settings.responses", optional=True),
    *,
    some: float = 0.1,
    most: float = 0.5,
    masked: float = 0.5,
) -> Fires:
    """The environment fails in many rollouts, and unmasked failures are scored as wrong answers.

    ## What it sees
    Over the last 5 rows, the check averages the share of rollouts in which the environment or its sandbox failed.
    Severity is **warning** if the share is above 10%, and **error** if it is above 50%. Severity is info if the
    rollouts show that at most half of the failures got the lowest reward of their step. A single row is sufficient if
    it has 30 or more rollouts.

    ## Thresholds
    - `some`: share of failed rollouts, 0 to 1, above which the severity is warning. With 10% failed rollouts and eight
      responses per prompt, more than half of the groups contain a failed rollout.
    - `most`: share of failed rollouts, 0 to 1, above which the severity is error, because the reward mostly reflects
      the state of the sandbox.
    - `masked`: maximum share of failures with the lowest reward, 0 to 1, at which failures count as masked.

    ## Why it matters
    A sandbox that times out gives a reward of 0 to a response that may have been correct. If failures are not masked,
    the reward depends on the load of the sandbox instead of the policy.

    ## Example
    ```text
    environment_failure_rate: 0.01x10 0.43x10
    ```
    Warning at step 11: The environment failed in 43% of recent rollouts.

    ```text
    environment_failure_rate: 0.02x20
    ```
    No finding.

    ## Known false alarms
    Some trainers mask or replace failed rollouts but still log the share of failures. The output of a tool may quote
    errors of another system, for example from a log file.

    ## Remedy
    Count the failures by message and fix the most frequent one. Mask failed rollouts instead of giving them a reward of
    0.

    ## Sources
    rllm-org/rllm#710 (76 of 178 episodes ended at a timeout and were scored 0); radixark/miles#2802; prime-rl
    (`train/agg/all/has_error/mean`); SkyRL-Agent (`rollout_metrics/error_runtime`, and its mask).
    """
    now = lately(environment_failure_rate, responses)
    floor = lately(failures_at_floor, responses)
    scored = ~(floor <= masked)
    over, mostly_over = now > some, (now > most) & scored
    return fires(
        over & scored,
        "The environment failed in {now:.0%} of recent rollouts{scored}.",
        info=over,
        error=mostly_over,
        suffered=mostly_over,
        onset=began(over, environment_failure_rate > some, step),
        now=now,
        scored=words(_scored, floor),
    )


def _scored(floor: float) -> str:
    return f", and {floor:.0%} of the failures got the lowest reward" if floor == floor else ""
