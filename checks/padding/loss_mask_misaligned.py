from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column, isnan, where


@check(
    "PAD002",
    kind="defect",
    severity="error",
    confidence="high",
    explains=("STL001", "KL001", "REW009", "REW015", "DIV004", "GRD002", "LEN002", "LEN003"),
    invalidates=("checkpoints since step {onset}: the wrong tokens were trained",),
)
def loss_mask_misaligned(
    prompt_tokens_in_mask: Column,
    response_tokens_outside_mask: Column,
    pad_tokens_in_mask: Column = None,
    cut_share: Column = None,
    masked: Column = any_of("settings.mask_truncated_completions", optional=True),
) -> Fires:
    """The loss mask does not match the response tokens.

    ## What it sees
    At every step, three counts must be 0: prompt tokens inside the mask, padding tokens inside the mask, and response
    tokens outside the mask. The first token and the final EOS are response tokens. Severity is **error** if a count is
    above 0 on 3 of 5 rows. Severity is **critical** if prompt or padding tokens are inside the mask. Response tokens
    outside the mask are accepted if responses are truncated and a setting masks truncated responses.

    ## Why it matters
    Prompt tokens inside the mask get the advantage of the answer, although they are not part of the answer. A missing
    first token or EOS is never learned, and responses without EOS run to the limit.

    ## Example
    ```text
    prompt_tokens_in_mask: 0x3 64x3
    response_tokens_outside_mask: 0x3 64x3
    ```
    Critical at step 4: The loss mask includes 64 prompt tokens and 0 padding tokens, and excludes 64 response tokens.

    ```text
    prompt_tokens_in_mask: 0x6
    response_tokens_outside_mask: 0x6
    ```
    No finding.

    ## Known false alarms
    Agent trainers exclude tool outputs and retrieved passages inside a response by design. Truncated responses may be
    masked without a declared setting.

    ## Remedy
    Build the mask from positions, not from token identity, and test it with responses of one token and both padding
    sides.

    ## Sources
    BoBaCai/grpo-dual (bugs 1 and 4); trl#6357, trl PR#4970; fault `mask-assumes-right-padding` of the engine.
    """
    excused = (cut_share > 0) & (masked == 1)
    pad = where(isnan(pad_tokens_in_mask), 0.0, pad_tokens_in_mask)
    inside = (prompt_tokens_in_mask > 0) | (pad > 0)
    return fires(
        inside | ((response_tokens_outside_mask > 0) & ~excused),
        "The loss mask includes {prompt:g} prompt tokens and {pad:g} padding tokens, and excludes {outside:g} response "
        "tokens.",
        critical=inside,
        prompt=prompt_tokens_in_mask,
        pad=pad,
        outside=response_tokens_outside_mask,
    )
