from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column


@check("CFG041", severity="error", confidence="high")
def column_not_in_the_dataset(
    lacking: Column = any_of("settings.lacking_column"),
) -> Fires:
    """The trainer or a reward function asks for a column that the dataset does not have.

    ## What it sees
    A script that gives TRL's `GRPOTrainer` a dataset whose columns it writes itself: `Dataset.from_dict` and
    `Dataset.from_list` with literal keys, also behind `map` with a function that returns a row (with
    `remove_columns=dataset.column_names` of any dataset), `select_columns`, `rename_column` and the like. It has no
    column `prompt`, or a reward function has a parameter without default that is neither a column nor passed by TRL.
    The column `prompt` is not passed on; `prompts` is.

    ## Why it matters
    The first step ends with a KeyError or a TypeError.

    ## Known false alarms
    None known.

    ## Remedy
    The column, or a default.

    ## Sources
    TRL `GRPOTrainer._calculate_rewards`, v0.14.0 to v1.9.0; huggingface/open-r1 PR 131.
    """
    return fires(lacking == lacking, "No column of the dataset: {lacking}.", hold=(1, 1), lacking=lacking)
