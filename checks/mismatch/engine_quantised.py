from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, each
from grpo_doctor.series.mismatch_parts import EXPLAINS, effect_of, share_of


@check(
    "MIS003",
    kind="risk",
    severity="info",
    confidence="medium",
    explains=EXPLAINS,
)
def engine_quantised(
    mismatch_causes: Column,
    rollout_gap: Column = None,
    *,
    least: float = 0.15,
    bad: float = 1e-2,
) -> Fires:
    """The quantisation of the rollout engine explains the mismatch.

    ## What it sees
    The settings of a token batch declare a quantised engine, and no other cause explains the difference. It is a
    warning above a k3 of 0.01.

    ## Thresholds
    - `least`: share of the squared log-probability difference, 0 to 1, that the cause must explain.
    - `bad`: k3 KL, nats per token, for a warning: RAT004's limit for an error.

    ## Why it matters
    Quantised weights change every distribution a little. The loss must correct for it with importance weights, or the
    bias of the gradient grows with the length of the response.

    ## Example
    ```text
    mismatch_causes: {"quantised": [1.0, 0.1]}
    rollout_mismatch_kl: 0.01
    ```
    Info at step 1: The quantised rollout engine explains 100% of the log-probability difference (0.1 nats/token).

    ```text
    mismatch_causes: {}
    rollout_mismatch_kl: 0.0001
    ```
    No finding.

    ## Known false alarms
    A run that learns with truncated importance sampling; it may keep its quantised engine.

    ## Remedy
    Use truncated importance sampling with a cap of 2, or fp8 on both sides, or bf16 in the engine.

    ## Sources
    Yao et al. 2025, 'Your efficient RL framework secretly brings you off-policy RL training' (FlashRL, TIS); fault
    `quantised` of benchmarks/mismatch.md.
    """
    share = each(share_of("quantised"), mismatch_causes)
    return fires(
        share > least,
        "The quantised rollout engine explains {share:.0%} of the log-probability difference ({size:.2g} nats/token).",
        hold=(1, 1),
        warning=(share > least) & (rollout_gap > bad),
        share=share,
        size=each(effect_of("quantised"), mismatch_causes),
    )
