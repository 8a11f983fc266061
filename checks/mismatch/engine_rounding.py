from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, each
from grpo_doctor.series.mismatch_parts import EXPLAINS, effect_of, share_of


@check(
    "MIS004",
    kind="remark",
    severity="info",
    confidence="medium",
    explains=EXPLAINS,
)
def engine_rounding(
    mismatch_causes: Column,
    *,
    least: float = 0.15,
) -> Fires:
    """Rounding explains the mismatch of rollout engine and trainer.

    ## What it sees
    In a token batch, the difference without another cause does not exceed bf16 rounding: k3 up to 2e-3 nats per token.

    ## Thresholds
    - `least`: share of the squared log-probability difference, 0 to 1, that the cause must explain.

    ## Why it matters
    This is the normal level of two engines in bf16. It sets the size of the smallest update that importance weights can
    still resolve (MIS013).

    ## Example
    ```text
    mismatch_causes: {"precision": [1.0, 0.02]}
    rollout_mismatch_kl: 0.01
    ```
    Info at step 1: Rounding explains 100% of the log-probability difference (0.02 nats/token).

    ```text
    mismatch_causes: {}
    rollout_mismatch_kl: 0.0001
    ```
    No finding.

    ## Known false alarms
    Int8 weights and mild staleness, because their effect can be as small; at this size, the cause does not matter.

    ## Remedy
    No change is needed. To remove the rounding difference, compute the output head in float32 on both sides, or train
    and sample in fp16.

    ## Sources
    arXiv 2510.26788; arXiv 2506.13585 (MiniMax-M1, float32 head); batch `precision` of benchmarks/mismatch.md.
    """
    share = each(share_of("precision"), mismatch_causes)
    return fires(
        share > least,
        "Rounding explains {share:.0%} of the log-probability difference ({size:.2g} nats/token).",
        hold=(1, 1),
        share=share,
        size=each(effect_of("precision"), mismatch_causes),
    )
