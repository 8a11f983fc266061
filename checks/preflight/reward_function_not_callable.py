from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column, words


@check("CFG034", severity="warning", confidence="high")
def reward_function_not_callable(
    known: Column = any_of("settings.refused_rewards", "settings.strict_rewards"),
    refused: Column = any_of("settings.refused_rewards", optional=True),
    strict: Column = any_of("settings.strict_rewards", optional=True),
) -> Fires:
    """A reward function does not accept the arguments that the trainer passes.

    ## What it sees
    A function in the script is passed to `GRPOTrainer` as a reward and has no `**kwargs`. It is an error if it has no
    `prompts` or no `completions` parameter, which every version passes. It is a warning if it has both, because TRL
    also passes `completion_ids` since 0.18 and `trainer_state` since 0.20.

    ## Why it matters
    TRL calls it with keyword arguments after the first rollout. The run ends with a TypeError after the model is
    loaded.

    ## Example
    ```python
    def accuracy(completions, answer):
        return [float(a in c) for c, a in zip(completions, answer)]
    GRPOTrainer(reward_funcs=[accuracy], args=GRPOConfig(num_generations=8))
    ```
    Error: The reward function accuracy (missing: prompts) has no **kwargs, so the call raises a TypeError.

    ```python
    def accuracy(completions, answer, **kwargs):
        return [float(a in c) for c, a in zip(completions, answer)]
    GRPOTrainer(reward_funcs=[accuracy], args=GRPOConfig(num_generations=8))
    ```
    No finding.

    ## Known false alarms
    The warning, if an older TRL is installed and the dataset columns match the parameters.

    ## Remedy
    Add `**kwargs` to the signature.

    ## Sources
    TRL `GRPOTrainer._calculate_rewards`, v0.14.0 to v1.9.0.
    """
    wrong = refused == refused
    return fires(
        wrong | (strict == strict),
        "The reward function {name} has no **kwargs, {what}.",
        error=wrong,
        name=words(lambda worse, other: worse if isinstance(worse, str) else str(other), refused, strict),
        what=words(
            lambda worse: (
                "so the call raises a TypeError"
                if isinstance(worse, str)
                else "but TRL 0.18 or later passes completion_ids"
            ),
            refused,
        ),
    )
