import numpy as np

from grpo_doctor import Fires, Rival, any_of, check, fires
from grpo_doctor.remedies import remedy
from grpo_doctor.stats import Column


@check(
    "PAD002",
    severity="error",
    confidence="high",
    explains=("STL001", "KL001", "REW009", "DIV004", "GRD002", "LEN002", "LEN003"),
    rivals=(
        Rival(
            "a mask by token identity",
            "with pad == eos the end of every response is left out: one token a response, none of the prompt",
            "the probe PAD003; response tokens outside the mask per response",
        ),
        Rival(
            "cut responses that are masked on purpose",
            "the overlong filter leaves whole responses out",
            "the setting (TRL mask_truncated_completions) and the share of cut responses",
        ),
        Rival(
            "a shift by one",
            "logits at t predict the token at t+1; a mask in the other coordinates misses one token at each end",
            "prompt tokens inside and response tokens outside, equal in number",
        ),
    ),
    remedies=(
        remedy(
            "mask-by-position",
            "Build the mask from positions, and shift it with the labels",
            by_hand="width = prompt_ids.shape[1]; mask = position >= width, up to and with the first end token; "
            "logp = logits[:, :-1].log_softmax(-1).gather(-1, ids[:, 1:, None]); loss uses mask[:, 1:]",
            trl="GRPOTrainer builds completion_mask from the first EOS; a subclass must hand it on unchanged",
            verl="response_mask from compute_response_mask; leave attention_mask of the prompt out",
            openrlhf="action_mask of the experience maker, unchanged",
            evidence="mended at step 31: true reward 0.48 → 0.62, as in a healthy run (0.63)",
            source="throw-away engine, remedies table; trl#6357, trl PR#4970; document 003",
        ),
    ),
    invalidates=("checkpoints since step {onset}: other tokens than the response were trained",),
)
def loss_mask_misaligned(
    prompt_tokens_in_mask: Column,
    response_tokens_outside_mask: Column,
    pad_tokens_in_mask: Column = None,
    cut_share: Column = None,
    masked: Column = any_of("settings.mask_truncated_completions", optional=True),
) -> Fires:
    """The loss mask does not cover exactly the response.

    ## What it sees
    Counts of a step that must be 0: prompt tokens inside the mask, padding inside it, response tokens outside it (the
    first token and the final EOS included). Any of them above 0 on 3 of 5 rows is an error; prompt or padding tokens
    inside are critical. Response tokens outside are excused while cut responses are masked by setting.

    ## Why it matters
    Prompt tokens inside the mask get the advantage of an answer that they did not give; a missing first token or EOS
    is never taught, and texts without EOS run to the limit.

    ## Known false alarms
    Tool outputs and retrieved passages inside a response are left out on purpose by agent trainers. Masking of cut
    responses without a declared setting.

    ## Remedy
    Build the mask from positions, not from token identity, and test it with responses of one token and both padding
    sides.

    ## Sources
    Documents 001 and 003 (bugs 1 and 4); trl#6357, trl PR#4970; throw-away engine: a mask shifted by one makes the
    update move the policy 16 times as far (0.16 against 0.01) and ends at 0.55 instead of 0.63.
    """
    excused = (cut_share > 0) & (masked == 1)
    pad = np.where(np.isnan(pad_tokens_in_mask), 0.0, pad_tokens_in_mask)
    inside = (prompt_tokens_in_mask > 0) | (pad > 0)
    return fires(
        inside | ((response_tokens_outside_mask > 0) & ~excused),
        "The loss mask holds {prompt:g} prompt and {pad:g} padding tokens and leaves out {outside:g} response tokens.",
        critical=inside,
        prompt=prompt_tokens_in_mask,
        pad=pad,
        outside=response_tokens_outside_mask,
    )
