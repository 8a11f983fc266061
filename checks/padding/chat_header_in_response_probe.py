from typing import Any

from grpo_doctor import Fires, fires, probe, probes


@probe("PAD005", severity="warning")
def probe_header(render: Any, tokenizer: Any, prompts: Any = None) -> Fires | None:
    """## What this certifies, and what it does not
    The probe certifies that a prompt does not end directly after the end of the user's turn. The probe does not certify
    that the model was trained with the header that opens the policy's turn (TOK001). The probe does not fire for
    templates that have no header, or that close the turn without a special token. Severity is warning, because a
    trainer may expect the policy to write the header itself, and a chat model usually does.

    ## What the probe does
    The probe renders the adapter's prompts. If the tokenizer's chat template adds a generation header after the user's
    turn, no prompt may end before that header. Dialogues that end with an assistant turn are skipped.
    """
    closing, header = probes.crafted_inputs.around_the_turn(tokenizer)
    if not header or not probes.crafted_inputs.special_ids(tokenizer).all & set(closing):
        raise probes.NotApplicable(
            "the chat template has no header between two turns, or no special token that ends a turn"
        )
    asked = [
        p
        for p in list(prompts or probes.crafted_inputs.PROMPTS)[:8]
        if isinstance(p, str) or p[-1]["role"] != "assistant"
    ]
    lacking = sum(probes.crafted_inputs.flat_ids(render(p))[-len(closing) :] == closing for p in asked)
    return fires(
        lacking > 0,
        "{lacking} of {rows} prompts end after the user's turn without the header {header}, so the policy must write "
        "it.",
        lacking=lacking,
        rows=len(asked),
        header=repr(tokenizer.decode(header)),
    )
