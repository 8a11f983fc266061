from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column


@check("CFG042", severity="warning", confidence="medium")
def eos_masked_as_padding(
    mask: Column = any_of("settings.mask_without_eos"),
) -> Fires:
    """The mask of the responses leaves out padding, and padding is the EOS token.

    ## What it sees
    A script that sets `pad_token = eos_token` without a condition and builds a mask of responses as "is not padding":
    EOS is left out with it.

    ## Why it matters
    The decision to stop gets no gradient, so responses grow to the limit, and nothing in the reward's curve says why.

    ## Known false alarms
    Code that adds the first EOS to the mask elsewhere.

    ## Remedy
    A mask by position: all up to the first EOS, that one included.

    ## Sources
    TRL `GRPOTrainer._generate_and_score_completions` (mask by the first EOS); huggingface/trl PR 7039.
    """
    return fires(mask == mask, "{mask} leaves out the EOS token: padding is the same token.", hold=(1, 1), mask=mask)
