from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column, each

_INSTRUCT = ("instruct", "-it", "-chat")


def _instruct(model: object) -> float:
    """Return 1 for model names that indicate instruction tuning."""
    name = str(model).lower()
    return float(any(name.endswith(word) or f"{word}-" in name for word in _INSTRUCT))


@check("CFG045", severity="info")
def prompts_without_the_chat_template(
    plain: Column = any_of("settings.plain_prompts"),
    model: Column = any_of("settings.model", "settings.model_name_or_path"),
) -> Fires:
    """Prompts for an instruct model are plain text instead of its chat template.

    ## What it sees
    The check fires if the script passes prompts without chat template tokens to TRL's `GRPOTrainer`, for a model whose
    name contains "instruct", "it" or "chat".

    ## Why it matters
    The model was trained on chat turns. Given plain text, an instruct model continues it like a document, often up to
    the length limit and without ending its turn. Without the template, RL must first teach the behaviour that the
    template provides.

    ## Example
    ```python
    data = load_dataset("a/b").map(lambda x: {"prompt": "Q: " + x["q"]})
    GRPOTrainer(model="Qwen/Qwen2.5-7B-Instruct", args=GRPOConfig(num_generations=8), train_dataset=data)
    ```
    Info: Prompts are plain text without a chat template, but Qwen/Qwen2.5-7B-Instruct is an instruct model.

    ```python
    data = load_dataset("a/b").map(lambda x: {"prompt": [{"role": "user", "content": x["q"]}]})
    GRPOTrainer(model="Qwen/Qwen2.5-7B-Instruct", args=GRPOConfig(num_generations=8), train_dataset=data)
    ```
    No finding.

    ## Known false alarms
    Plain-text prompts may be deliberate, so severity is **info**.

    ## Remedy
    Write prompts as lists of messages; TRL then applies the chat template.

    ## Sources
    TRL `maybe_apply_chat_template`; huggingface/open-r1 PR 131.
    """
    return fires(
        (plain == 1) & (each(_instruct, model) > 0),
        "Prompts are plain text without a chat template, but {model} is an instruct model.",
        model=model,
    )
