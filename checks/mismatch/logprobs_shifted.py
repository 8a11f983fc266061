from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, each, where
from grpo_doctor.series.mismatch_parts import EXPLAINS, effect_of, share_of


@check(
    "MIS010",
    kind="defect",
    severity="critical",
    confidence="high",
    explains=EXPLAINS,
    invalidates=("updates since step {onset}: every ratio compares two different tokens",),
)
def logprobs_shifted(
    mismatch_causes: Column,
    *,
    least: float = 0.15,
) -> Fires:
    """The log-probabilities of rollout engine and trainer are shifted relative to each other.

    ## What it sees
    In a token batch, the two sides agree at least twice as well if the log-probabilities of one side are shifted by one
    to four tokens, starting at the first token.

    ## Thresholds
    - `least`: share of the squared log-probability difference, 0 to 1, that the cause must explain.

    ## Why it matters
    Each importance ratio divides the probability of one token by that of a neighbouring token. The update is then
    noise.

    ## Example
    ```text
    mismatch_causes: {"shift": [0.9, 1.0]}
    rollout_mismatch_kl: 0.01
    ```
    Critical at step 1: The log-probabilities of rollout engine and trainer agree only if they are shifted by 1
    token.

    ```text
    mismatch_causes: {}
    rollout_mismatch_kl: 0.0001
    ```
    No finding.

    ## Known false alarms
    None known.

    ## Remedy
    Position t of the logits predicts token t + 1. Check the slice of the logits, the mask and the first token of the
    engine's list.

    ## Sources
    derived; batch `shift` of benchmarks/mismatch.md.
    """
    share = each(share_of("shift"), mismatch_causes)
    return fires(
        share > least,
        "The log-probabilities of rollout engine and trainer agree only if they are shifted by {shift:.0f} {tokens}.",
        hold=(1, 1),
        share=share,
        shift=each(effect_of("shift"), mismatch_causes),
        tokens=where(each(effect_of("shift"), mismatch_causes) == 1, "token", "tokens"),
    )
