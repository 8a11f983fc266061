from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column


@check("CFG044", severity="error", confidence="high")
def reward_reads_the_other_form(
    wrong: Column = any_of("settings.wrong_form"),
) -> Fires:
    """A reward function reads completions as messages where they are text, or as text where they are messages.

    ## What it sees
    A script that gives TRL's `GRPOTrainer` a dataset whose prompts it writes itself, as a list of messages with roles
    or as a text, also in a function that it maps over the dataset; and a reward function that uses each completion in
    the other form: `completion[0]["content"]` of a text, or `re.search(pattern, completion)` of messages. One that asks
    with `isinstance`, or catches errors, is left alone.

    ## Why it matters
    TRL returns messages for messages and text for text. The first step ends with a TypeError or AttributeError.

    ## Known false alarms
    None known.

    ## Remedy
    Read the form that the prompts have.

    ## Sources
    TRL `GRPOTrainer` (`is_conversational`), v0.14.0 to v1.9.0; huggingface/open-r1 PR 131.
    """
    return fires(wrong == wrong, "The reward function {wrong}.", hold=(1, 1), wrong=wrong)
