from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column, words


@check("CFG034", severity="warning", confidence="high")
def reward_function_not_callable(
    known: Column = any_of("settings.refused_rewards", "settings.strict_rewards"),
    refused: Column = any_of("settings.refused_rewards", optional=True),
    strict: Column = any_of("settings.strict_rewards", optional=True),
) -> Fires:
    """The trainer cannot call a reward function: it does not take what it is passed.

    ## What it sees
    A function of the script that is given to `GRPOTrainer` as a reward and has no `**kwargs`. An error where it takes
    no `prompts` or no `completions`, which every version passes; a warning where it takes both, for TRL passes
    `completion_ids` too from 0.18 on and `trainer_state` from 0.20 on.

    ## Why it matters
    The call is made by keywords, behind the first rollout: the run ends with a TypeError after the model is loaded.

    ## Known false alarms
    The warning where an older TRL is installed and the columns of the dataset are just the parameters.

    ## Remedy
    `**kwargs` in the signature.

    ## Sources
    TRL `GRPOTrainer._calculate_rewards`, v0.14.0 to v1.9.0.
    """
    wrong = refused == refused
    return fires(
        wrong | (strict == strict),
        "The reward function {name} has no **kwargs: {what}.",
        hold=(1, 1),
        error=wrong,
        name=words(lambda worse, other: worse if isinstance(worse, str) else str(other), refused, strict),
        what=words(
            lambda worse: "the call fails" if isinstance(worse, str) else "TRL passes completion_ids too, from 0.18 on",
            refused,
        ),
    )
