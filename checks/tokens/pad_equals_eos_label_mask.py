from typing import Any

from grpo_doctor import Fires, fires, probe, probes


@probe(
    "TOK003",
    kind="defect",
    severity="error",
    explains=("LEN002", "LEN003", "TOK007"),
    invalidates=("the supervised stage, because it did not train the EOS",),
)
def pad_equals_eos_label_mask(
    collate_sft: Any, tokenizer: Any, prompts: Any = None, supervised: Any = None, render: Any = None
) -> Fires | None:
    """The supervised collator masks the EOS or other answer tokens.

    ## What it sees
    The probe collates answers of unequal length into one batch. The last labelled token of every row must be an EOS
    (the tokenizer's, or the token with which the chat template closes a turn). Every label must equal its own input id,
    and no label may be padding. If the RL renderer is provided, every token after the prompt up to the EOS must have a
    label. In addition, no prompt token may have a label.

    ## Why it matters
    `DataCollatorForLanguageModeling` masks labels by pad id. If pad equals EOS, the collator also masks the EOS. If
    the EOS is masked, the model does not learn to stop, and RL begins with answers that run to the limit.

    ## Example
    ```python
    import torch
    from my_trainer import prompts, render, tokenizer

    tokenizer.pad_token = tokenizer.eos_token


    def collate_sft(prompts, answers):
        rows = [(render(p), tokenizer.encode(a) + [tokenizer.eos_token_id]) for p, a in zip(prompts, answers)]
        width = max(len(prompt) + len(answer) for prompt, answer in rows)
        ids = torch.full((len(rows), width), tokenizer.pad_token_id)
        labels = torch.full((len(rows), width), -100)
        for row, (prompt, answer) in enumerate(rows):
            end = len(prompt) + len(answer)
            ids[row, :end] = torch.tensor(prompt + answer)
            labels[row, len(prompt) : end] = ids[row, len(prompt) : end]
        labels[ids == tokenizer.pad_token_id] = -100
        return ids, labels
    ```
    Error: Of 3 supervised examples, the EOS is not trained in 3, answer tokens are masked in 0, and padding is trained
    in 0. In 0 of 3 examples, the labels differ from the input ids.

    ```python
    import torch
    from my_trainer import prompts, render, tokenizer

    tokenizer.pad_token = tokenizer.eos_token


    def collate_sft(prompts, answers):
        rows = [(render(p), tokenizer.encode(a) + [tokenizer.eos_token_id]) for p, a in zip(prompts, answers)]
        width = max(len(prompt) + len(answer) for prompt, answer in rows)
        ids = torch.full((len(rows), width), tokenizer.pad_token_id)
        labels = torch.full((len(rows), width), -100)
        for row, (prompt, answer) in enumerate(rows):
            end = len(prompt) + len(answer)
            ids[row, :end] = torch.tensor(prompt + answer)
            labels[row, len(prompt) : end] = ids[row, len(prompt) : end]
        return ids, labels
    ```
    No finding.

    ## What this certifies, and what it does not
    The probe certifies the labels of one batch of short answers. The probe does not certify packing, truncation of long
    examples (which also drops the EOS), or the loss that is computed from the labels.

    ## Known false alarms
    Training on the prompt as well as on the answer may be deliberate. By design, some training stages of a base model
    do not teach the model to stop.

    ## Remedy
    Mask labels by attention mask or by length, not by pad id.

    ## Sources
    huggingface/transformers#23530, huggingface/trl#976; BoBaCai/grpo-dual.
    """
    craft = probes.crafted_inputs
    special = craft.special_ids(tokenizer)
    if special.eos is None:
        raise probes.NotApplicable("the tokenizer has no EOS")
    given = list(supervised or ())[:4]
    pairs = given or list(zip(prompts or craft.PROMPTS, ["Custom -> Programmer : done", "12", "ok then"], strict=False))
    ids, labels = collate_sft([p for p, _ in pairs], [a for _, a in pairs])
    ends = {special.eos, *(i for i in special.all if i not in (special.bos,))}
    unclosed = holes = shifted = padded = 0
    for n, (prompt, _) in enumerate(pairs):
        marked = [t for t, label in enumerate(labels[n].tolist()) if label != -100]
        row = ids[n].tolist()
        if not marked or row[marked[-1]] not in ends:
            unclosed += 1
            continue
        padded += _pads(row, marked, special)
        shifted += any(int(labels[n, t]) != row[t] for t in marked)
        holes += marked != list(range(marked[0], marked[-1] + 1))
        if render is not None and marked[0] > 0:
            header = craft.flat_ids(render(prompt))
            holes += row[marked[0] - len(header) : marked[0]] != header and header == _after_padding(row, header)
    return fires(
        bool(unclosed or holes or shifted or padded),
        "Of {rows} supervised examples, the EOS is not trained in {unclosed}, answer tokens are masked in {holes}, and "
        "padding is trained in {padded}. In {shifted} of {rows} examples, the labels differ from the "
        "input ids.",
        rows=len(pairs),
        unclosed=unclosed,
        holes=holes,
        shifted=shifted,
        padded=padded,
    )


def _pads(row: list[int], marked: list[int], special: Any) -> bool:
    """Return whether padding has labels. If pad is EOS, more than two labelled EOS tokens (one of the turn and one of
    the text) count as padding."""
    if special.pad != special.eos:
        return any(row[t] == special.pad for t in marked)
    return len(marked) > 2 and all(row[t] == special.pad for t in marked[-3:])


def _after_padding(row: list[int], header: list[int]) -> list[int]:
    """Return the header if the row contains it, or an empty list, because TOK001 reports a different template."""
    starts = range(len(row) - len(header) + 1)
    return header if any(row[s : s + len(header)] == header for s in starts) else []
