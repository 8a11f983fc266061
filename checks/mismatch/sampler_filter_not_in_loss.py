from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, each
from grpo_doctor.series.mismatch_parts import EXPLAINS, effect_of, share_of


@check(
    "MIS007",
    kind="defect",
    severity="warning",
    confidence="high",
    explains=EXPLAINS,
    invalidates=("importance ratios since step {onset}",),
)
def sampler_filter_not_in_loss(
    mismatch_causes: Column,
    *,
    least: float = 0.15,
    much: float = 0.05,
) -> Fires:
    """The sampler excludes tokens that the loss does not exclude.

    ## What it sees
    In a token batch, the mean of exp(trainer minus engine) is below 1 by more than five standard errors, and the
    differences are negative and bounded. For any two distributions over the same tokens, this mean is 1. The part that
    is missing is the probability that the sampler excluded. It is an error if the excluded probability is above 5%.

    ## Thresholds
    - `least`: share of the squared log-probability difference, 0 to 1, that the cause must explain.
    - `much`: mean excluded probability, 0 to 1, for an error.

    ## Why it matters
    With top-p, top-k or min-p, the engine renormalises over fewer tokens. The excluded tokens are never sampled, but
    the loss assigns them probability. Every ratio is therefore below 1, and probability leaks to tokens that no reward
    has judged.

    ## Example
    ```text
    mismatch_causes: {"filter": [1.0, 0.051]}
    rollout_mismatch_kl: 0.01
    ```
    Error at step 1: The sampler excludes 5.1% of the probability on average (top-p, top-k or min-p), and the loss
    does not: this explains 100% of the log-probability difference.

    ```text
    mismatch_causes: {}
    rollout_mismatch_kl: 0.0001
    ```
    No finding.

    ## Known false alarms
    None known.

    ## Remedy
    Sample with `top_p=1.0, top_k=0, min_p=0`, or apply the same mask in the loss.

    ## Sources
    huggingface/trl#4772; arXiv 2512.02556 (DeepSeek-V3.2, keep sampling mask); batches `top-p` and `top-k` of
    benchmarks/mismatch.md.
    """
    share = each(share_of("filter"), mismatch_causes)
    excluded = each(effect_of("filter"), mismatch_causes)
    return fires(
        share > least,
        "The sampler excludes {excluded:.1%} of the probability on average (top-p, top-k or min-p), and the loss does "
        "not: this explains {share:.0%} of the log-probability difference.",
        hold=(1, 1),
        error=(share > least) & (excluded > much),
        share=share,
        excluded=excluded,
    )
