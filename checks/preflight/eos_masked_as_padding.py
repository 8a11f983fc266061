from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.diagnosis.remedies import remedy
from grpo_doctor.series import Column


@check(
    "CFG042",
    severity="warning",
    confidence="medium",
    remedies=(
        remedy(
            "mask-behind-the-first-eos",
            "Mask what comes behind the first EOS, and keep that one",
            by_hand="is_eos = ids == eos_id; mask = (is_eos.cumsum(-1) - is_eos.int()) == 0",
            trl="GRPOTrainer masks behind the first EOS itself",
            evidence="a token that is masked has no gradient: the model is never taught to stop",
            source="TRL grpo_trainer.py (completion mask by the first EOS)",
        ),
    ),
)
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
