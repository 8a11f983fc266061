from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, each
from grpo_doctor.series.mismatch_parts import EXPLAINS, effect_of, share_of


@check(
    "MIS009",
    kind="defect",
    severity="error",
    confidence="high",
    explains=EXPLAINS,
    invalidates=("updates since step {onset}: log-probabilities belong to other tokens",),
)
def responses_retokenised(
    mismatch_causes: Column,
    *,
    least: float = 0.15,
) -> Fires:
    """The token ids that the trainer scores differ from those that the rollout engine sampled.

    ## What it sees
    In a token batch, the log-probabilities of the two sides agree only if they are shifted by some tokens, starting at
    certain positions within the responses.

    ## Thresholds
    - `least`: share of the squared log-probability difference, 0 to 1, that the cause must explain.

    ## Why it matters
    Text that is decoded and encoded again does not give the same ids. Every later token is then compared with a
    neighbouring token.

    ## Example
    ```text
    mismatch_causes: {"retokenised": [0.8, 0.5]}
    rollout_mismatch_kl: 0.01
    ```
    Error at step 1: 50% of the responses were tokenised again: log-probabilities agree only with shifts within
    them.

    ```text
    mismatch_causes: {}
    rollout_mismatch_kl: 0.0001
    ```
    No finding.

    ## Known false alarms
    None known.

    ## Remedy
    Pass the sampled ids to the trainer. In multi-turn rollouts, append ids; never re-encode the conversation.

    ## Sources
    vLLM blog, 'No more retokenization drift' (return_token_ids); verl docs, 'tokenization sanity check'; fault
    `retokenised` of benchmarks/mismatch.md.
    """
    share = each(share_of("retokenised"), mismatch_causes)
    return fires(
        share > least,
        "{responses:.0%} of the responses were tokenised again: log-probabilities agree only with shifts within them.",
        hold=(1, 1),
        share=share,
        responses=each(effect_of("retokenised"), mismatch_causes),
    )
