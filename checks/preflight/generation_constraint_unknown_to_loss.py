from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column, where


@check("CFG055", severity="info", confidence="medium")
def generation_constraint_unknown_to_loss(
    known: Column = any_of("settings.no_repeat_ngram", "settings.min_new_tokens"),
    ngram: Column = any_of("settings.no_repeat_ngram", optional=True),
    least: Column = any_of("settings.min_new_tokens", optional=True),
) -> Fires:
    """Rollouts are generated under a constraint that the loss does not contain.

    ## What it sees
    `no_repeat_ngram_size` above 0: warning. A minimum of new tokens above 0: info.

    ## Why it matters
    Both mask tokens while responses are sampled: repeated n-grams, or the EOS token. The loss computes the
    probability without the mask, so the ratio is wrong exactly where the mask acted, and the EOS token is never
    learnt there.

    ## Known false alarms
    A trainer that applies the same processors in its loss.

    ## Remedy
    Sample without them; penalise repetition or short responses in the reward.

    ## Sources
    TRL `GRPOConfig.generation_kwargs`; transformers `NoRepeatNGramLogitsProcessor`,
    `MinNewTokensLengthLogitsProcessor`.
    """
    return fires(
        (known == known) & ((ngram > 0) | (least > 1)),
        "Rollouts are generated with {what}, which the loss does not contain.",
        hold=(1, 1),
        warning=ngram > 0,
        what=where(ngram > 0, "no_repeat_ngram_size", "a minimum length"),
    )
