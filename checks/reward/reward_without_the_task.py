from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column, lately


@check(
    "REW022",
    kind="defect",
    severity="warning",
    confidence="high",
    explains=("REW002", "DIV002", "DIV008", "LEN001"),
    run_types=("rl", "evaluation"),
)
def reward_without_the_task(
    taskless_reward: Column,
    reward_mean: Column,
    reward_std: Column,
    reward_max: Column,
    responses: Column = any_of("settings.responses", optional=True),
    *,
    high: float = 0.9,
) -> Fires:
    """Responses that ignore the task get as much reward as other responses.

    ## What it sees
    Empty responses and copies of the prompt ignore the task. A text of more than 40 characters also counts as ignoring
    the task if it is the response to three or more prompts. The check averages the reward of responses that ignore the
    task over 5 rows. Each row must have at least three responses that ignore the task. Severity is **warning** if
    responses that ignore the task get at least the mean reward of all responses while rewards differ. Severity is
    **error** if responses that ignore the task get at least 90% of the highest reward. A single row of 30 or more
    rollouts is judged on its own.

    ## Thresholds
    - `high`: share of the highest reward, 0 to 1, at or above which the severity is error.

    ## Why it matters
    Within a few steps, the policy finds a reward that it can get without solving the task, and unlearns everything
    else.

    ## Example
    ```text
    taskless_reward: 0.89x20
    reward_mean: 0.5x20
    reward_std: 0.25x20
    reward_max: 1x20
    ```
    Warning at step 5: Responses that ignore the task have a mean reward of 0.89, compared with 0.5 for all responses.

    ```text
    taskless_reward: 0.05x20
    reward_mean: 0.5x20
    reward_std: 0.25x20
    reward_max: 1x20
    ```
    No finding.

    ## Known false alarms
    In classification, one sentence is the correct answer to many prompts. In some tasks, a refusal is the correct
    response.

    ## Remedy
    Give responses that ignore the task the lowest reward. Score an empty response, a copy of the prompt and one fixed
    text before training starts.

    ## Sources
    arXiv 2507.08794 (one fixed opening fools a model that judges answers).
    """
    free_of_it, excess = lately(taskless_reward, responses), lately(taskless_reward - reward_mean, responses)
    free = (excess >= 0) & (lately(reward_std, responses) > 0)
    return fires(
        free,
        "Responses that ignore the task have a mean reward of {reward:.3g}, compared with {mean:.3g} for all "
        "responses.",
        error=free & (free_of_it >= high * reward_max) & (reward_max > 0),
        reward=free_of_it,
        mean=free_of_it - excess,
    )
