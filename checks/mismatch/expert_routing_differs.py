from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, each
from grpo_doctor.series.mismatch_parts import EXPLAINS, effect_of, share_of


@check(
    "MIS005",
    kind="defect",
    severity="warning",
    confidence="medium",
    explains=EXPLAINS,
    invalidates=("importance ratios since step {onset}: the two sides used different experts for some tokens",),
)
def expert_routing_differs(
    mismatch_causes: Column,
    rollout_gap: Column = None,
    *,
    least: float = 0.15,
    bad: float = 1e-2,
) -> Fires:
    """Rollout engine and trainer route tokens to different experts.

    ## What it sees
    In a token batch that records the selected experts of both sides, the difference is concentrated on tokens whose
    experts differ. Without recorded experts, fewer than half of the tokens account for more than 80% of the squared
    difference, each with more than 6 times the usual size. The other tokens agree up to rounding. It is an error above
    a k3 of 0.01.

    ## Thresholds
    - `least`: share of the squared log-probability difference, 0 to 1, that the cause must explain.
    - `bad`: k3 KL, nats per token, for an error: RAT004's.

    ## Why it matters
    A router selects experts by rank. A difference of one rounding step can select different experts, and the token is
    then scored by a different network, so its importance weight can have any value.

    ## Example
    ```text
    mismatch_causes: {"routing": [0.8, 0.02]}
    rollout_mismatch_kl: 0.01
    ```
    Warning at step 1: Different experts for 2.0% of the tokens explain 80% of the log-probability difference.

    ```text
    mismatch_causes: {}
    rollout_mismatch_kl: 0.0001
    ```
    No finding.

    ## Known false alarms
    Any fault that affects only a few tokens; without recorded experts, it has the same signs.

    ## Remedy
    Replay the engine's routing in the trainer (R3), or use ratios of whole sequences (GSPO), which average over the
    affected tokens.

    ## Sources
    arXiv 2510.11370 (R3, rollout routing replay); arXiv 2507.18071 (GSPO); batches `routing` and
    `routing-unrecorded` of benchmarks/mismatch.md.
    """
    share = each(share_of("routing"), mismatch_causes)
    return fires(
        share > least,
        "Different experts for {tokens:.1%} of the tokens explain {share:.0%} of the log-probability difference.",
        hold=(1, 1),
        error=(share > least) & (rollout_gap > bad),
        share=share,
        tokens=each(effect_of("routing"), mismatch_causes),
    )
