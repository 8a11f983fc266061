from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column, is_any, isnan


@check("CFG001", severity="info", explains=("ADV001",))
def group_size_out_of_range(
    group_size: Column,
    grouped: Column = any_of("settings.group_baseline", optional=True),
    framework: Column = any_of("settings.framework", optional=True),
    refuses: Column = any_of("settings.refuses_group_of_one", optional=True),
    estimator: Column = any_of("settings.adv_estimator", optional=True),
    own_group: Column = any_of("settings.own_group", optional=True),
    steps: Column = any_of("settings.max_steps", optional=True),
    value_loss: Column = None,
    *,
    group_below: int = 4,
) -> Fires:
    """The group is too small for its mean to be a good baseline.

    ## What it sees
    Severity is **info** for two or three responses per prompt, and **warning** for one response. The check is skipped
    if the estimator does not use the group as the baseline (GAE, REINFORCE, ReMax). The check is also skipped if the
    log records the loss of a critic, or if CFG013 fires. Forks in which agents form their own groups are not checked.
    Severity is **info** if the configuration does not name the estimator, or declares only one step.

    ## Thresholds
    - `group_below`: number of responses per prompt below which the check fires.

    ## Why it matters
    The group mean is the baseline. With one response, the advantage is 0, NaN or the raw reward. With two responses,
    the advantage is only a sign.

    ## Example
    ```python
    GRPOConfig(num_generations=2)
    ```
    Info: The group size is 2: the mean of so few responses is a poor baseline.

    ```python
    GRPOConfig(num_generations=8)
    ```
    No finding.

    ## Known false alarms
    A group size of 2 with many prompts per update is a documented recipe. REINFORCE-style trainers use a group size of
    1 by design. A log that does not name the estimator gets at most a warning. With a group size of 1, verl uses the
    raw reward as the advantage.

    ## Remedy
    Use 8 to 16 responses per prompt; DeepSeekMath used 64.

    ## Sources
    TRL `GRPOConfig.__post_init__` ("requires at least 2 generations"); OpenRLHF `train_ppo_ray.py`; verl
    `core_algos.py`; arXiv 2402.03300; arXiv 2510.00977.
    """
    own = is_any(estimator, "gae", "gae_general", "reinforce", "reinforce_plus_plus", "reinforce++", "remax", "ppo")
    asked = ~(own | (grouped == 0) | (value_loss == value_loss))
    refused = (grouped == 1) & (refuses == 1)
    alone = asked & (group_size <= 1) & ~refused & ~(own_group == 1)
    return fires(
        alone | (asked & (group_size > 1) & (group_size < group_below)),
        "The group size is {k:.0f}: the mean of so few responses is a poor baseline.",
        hold=(1, 1),
        warning=alone & ((grouped == 1) | isnan(framework)) & ~(steps <= 1),
        k=group_size,
    )
