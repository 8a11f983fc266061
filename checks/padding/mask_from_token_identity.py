from typing import Any

from grpo_doctor import Fires, fires, probe, probes


@probe("PAD003", kind="defect", severity="error", explains=("PAD002", "LEN002", "LEN003"))
def mask_from_token_identity(
    mask: Any, render: Any, tokenizer: Any, model: Any = None, prompts: Any = None
) -> Fires | None:
    """The mask excludes every token that equals the pad id, and the pad id is the EOS.

    ## What it sees
    The probe makes the pad token equal to EOS and passes a response that ends with EOS to the trainer's mask. The mask
    must include the final EOS. A second response with an EOS in the middle shows whether token identity is the cause.
    If token identity is the cause, the mask also excludes the EOS in the middle, or includes the final EOS under a
    different pad id. If the tokenizer's own pad token differs from EOS, the bug has no effect yet, and severity is
    **info**.

    ## Why it matters
    If the mask excludes the EOS, the policy never learns to emit it. A policy that has not learned to stop runs to the
    limit, and a policy that forgets to stop is not corrected.

    ## Example
    ```python
    from my_trainer import batch, model, prompts, render, tokenizer

    tokenizer.pad_token = tokenizer.eos_token


    def mask(prompts, responses):
        ids, attention, mask = batch(prompts, responses)
        return ids, attention, mask * (ids[:, 1:] != tokenizer.pad_token_id)
    ```
    Error: With pad == EOS, the mask excludes the EOS of every response.

    ```python
    from my_trainer import batch, model, prompts, render, tokenizer

    tokenizer.pad_token = tokenizer.eos_token


    def mask(prompts, responses):
        return batch(prompts, responses)
    ```
    No finding.

    ## What this certifies, and what it does not
    The probe certifies that the mask includes the EOS of a response although padding has the same id. The probe checks
    neither the supervised stage (TOK003) nor attention masks that are inferred from ids (PAD004).

    ## Known false alarms
    No false alarm is known. A trainer that rejects pad == EOS with an exception is correct and is not judged.

    ## Remedy
    Build masks from lengths or from the generator's finish reason, or use a separate pad token (Llama 3.1 ships
    `<|finetune_right_pad_id|>`).

    ## Sources
    huggingface/trl#4970; BoBaCai/grpo-dual, which calls pad == EOT a standard, and grpo-dual 91ee919, which reverts
    this two and a half hours later.
    """
    craft = probes.crafted_inputs
    eos = craft.special_ids(tokenizer).eos
    if eos is None:
        raise probes.NotApplicable("the tokenizer has no EOS")
    own = [ids for _, ids in craft.rendered(render, prompts)][:2]
    words = craft.plain_ids(tokenizer, model, own)
    # the trainer may pad with an id other than the tokenizer's
    used = craft.padding_of(craft.batch_of(mask(own, [[*words[:3], eos]] * len(own))))
    native = craft.special_ids(tokenizer).pad if used is None else used
    other = native if native != eos else words[-1]

    def trained(pad: int, response: list[int]) -> list[bool]:
        tokenizer.pad_token_id = pad
        try:
            batch = craft.batch_of(mask(own, [response] * len(own)))
        except ValueError as error:
            raise probes.NotApplicable(f"the trainer rejects pad == EOS: {error}") from None
        marked = craft.trained_tokens(batch)
        positions = craft.response_positions(batch, 0, response, own[0])
        if positions is None:
            raise probes.Unjudged("the loss batch does not contain the sampled ids; see GEN005")
        return [bool(marked[0, p]) for p in positions]

    ends = trained(eos, [words[0], words[1], eos])
    if ends[2] or not ends[0]:
        return None
    inner = trained(eos, [words[0], eos, words[1], eos])
    otherwise = trained(other, [words[0], words[1], eos])
    by_identity = (native == eos and inner[2] and not inner[1] and not inner[3]) or otherwise[2]
    return fires(
        by_identity,
        "With pad == EOS, the mask excludes the EOS of every response"
        + (" (this run uses a different pad id)." if native != eos else "."),
        info=native != eos,
        error=native == eos,
        native_pad=native,
        eos=eos,
    )
