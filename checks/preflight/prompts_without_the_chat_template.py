from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column, each

_INSTRUCT = ("instruct", "-it", "-chat")


def _instruct(model: object) -> float:
    """1 where a model's name says that it was trained to follow instructions."""
    name = str(model).lower()
    return float(any(name.endswith(word) or f"{word}-" in name for word in _INSTRUCT))


@check("CFG045", severity="info")
def prompts_without_the_chat_template(
    plain: Column = any_of("settings.plain_prompts"),
    model: Column = any_of("settings.model", "settings.model_name_or_path"),
) -> Fires:
    """The prompts of an instruct model are plain text, without its chat template.

    ## What it sees
    A script that gives TRL's `GRPOTrainer` a dataset whose prompts it writes as text without the signs of a chat
    template, for a model whose name says instruct, it or chat.

    ## Why it matters
    The model was trained on turns. On plain text it writes on as a document would, often without an end of turn up to
    the limit; the first hundred steps teach it what the template would have told it.

    ## Known false alarms
    Prompts in plain text are sometimes meant so: info.

    ## Remedy
    Prompts as lists of messages, which TRL puts into the template.

    ## Sources
    TRL `maybe_apply_chat_template`; huggingface/open-r1 PR 131.
    """
    return fires(
        (plain == 1) & (each(_instruct, model) > 0),
        "Prompts are plain text without a chat template, and {model} is an instruct model.",
        hold=(1, 1),
        model=model,
    )
