from typing import Any

from grpo_doctor import Fires, fires, probe, probes


@probe("TOK002", kind="defect", severity="error", explains=("TOK001", "KL006"))
def double_bos(
    tokenizer: Any, render: Any = None, render_sft: Any = None, mask: Any = None, model: Any = None, prompts: Any = None
) -> Fires | None:
    """A sequence begins with two BOS tokens.

    ## What it sees
    The probe reads the first two ids that the RL renderer, the supervised renderer and the batch of the loss produce
    for the adapter's prompts. Severity is **error** if some paths have two BOS tokens and others do not, or if only one
    path is provided. Severity is **warning** if several paths are provided and all of them have two BOS tokens.

    ## Why it matters
    A chat template writes BOS, and a tokenizer that adds special tokens writes BOS again. The policy was not trained on
    sequences that start with two BOS tokens. If only one path writes BOS twice, rollout engine and loss score different
    sequences.

    ## Example
    ```python
    from my_trainer import tokenizer

    template = "{{ bos_token }}{% for message in messages %}{{ message.content }}{% endfor %}"


    def render(prompt):
        text = tokenizer.apply_chat_template(prompt, chat_template=template, tokenize=False)
        return [tokenizer.bos_token_id, *tokenizer.encode(text)]
    ```
    Error: Sequences from render begin with two BOS tokens.

    ```python
    from my_trainer import tokenizer

    template = "{{ bos_token }}{% for message in messages %}{{ message.content }}{% endfor %}"


    def render(prompt):
        text = tokenizer.apply_chat_template(prompt, chat_template=template, tokenize=False)
        return tokenizer.encode(text)
    ```
    No finding.

    ## What this certifies, and what it does not
    The probe certifies the first two ids of the paths that the adapter provides. The probe does not cover the text path
    of an inference server, which tokenises the rendered text again.

    ## Known false alarms
    A model family may have been trained with two BOS tokens (none is known). Tokenizers without a BOS token are not
    judged.

    ## Remedy
    Set `add_special_tokens=False` when you tokenise text that a template has rendered.

    ## Sources
    vllm#27486, OpenRLHF#393, open-r1#462.
    """
    craft = probes.crafted_inputs
    bos = craft.special_ids(tokenizer).bos
    if bos is None:
        raise probes.NotApplicable("the tokenizer has no BOS token")
    chosen = list(prompts or craft.PROMPTS)
    paths: dict[str, list[list[int]]] = {}
    if render is not None:
        paths["render"] = [craft.flat_ids(render(p)) for p in chosen]
        if mask is not None:
            words = craft.plain_ids(tokenizer, model, paths["render"])
            batch = craft.batch_of(mask(paths["render"], [words[:3]] * len(chosen)))
            paths["loss"] = [craft.row_ids(batch, n) for n in range(len(batch.input_ids))]
    if render_sft is not None:
        paths["render_sft"] = [craft.flat_ids(render_sft(p, "ok")) for p in chosen]
    if not paths:
        raise probes.NotApplicable("needs render or render_sft")
    twice = [name for name, rows in paths.items() if any(row[:2] == [bos, bos] for row in rows)]
    return fires(
        bool(twice),
        "Sequences from {where} begin with two BOS tokens.",
        warning=len(twice) == len(paths) > 1,
        error=len(twice) < len(paths) or len(paths) == 1,
        where=", ".join(twice),
    )
