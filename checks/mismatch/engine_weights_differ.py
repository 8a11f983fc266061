from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, each
from grpo_doctor.series.mismatch_parts import EXPLAINS, effect_of, share_of


@check(
    "MIS002",
    kind="defect",
    severity="warning",
    confidence="medium",
    explains=EXPLAINS,
)
def engine_weights_differ(
    mismatch_causes: Column,
    rollout_gap: Column = None,
    *,
    least: float = 0.15,
    bad: float = 1e-2,
) -> Fires:
    """The weights of the rollout engine differ from all weights that training produced.

    ## What it sees
    In a token batch, the difference is larger than rounding explains (k3 KL above 2e-3). Neither the change since the
    reference nor the recorded version of the weights explains it. It is an error above a k3 of 0.01.

    ## Thresholds
    - `least`: share of the squared log-probability difference, 0 to 1, that the cause must explain.
    - `bad`: k3 KL, nats per token, for an error: RAT004's.

    ## Why it matters
    The engine uses another checkpoint or adapter, or a lossy copy of the weights. The policy that earns the rewards is
    not the policy that is trained.

    ## Example
    ```text
    mismatch_causes: {"other-weights": [0.9, 0.2]}
    rollout_mismatch_kl: 0.01
    ```
    Warning at step 1: The rollout engine uses different weights (another checkpoint, adapter or choice of
    experts, or undeclared quantisation): this explains 90% of the log-probability difference (0.2 nats).

    ```text
    mismatch_causes: {}
    rollout_mismatch_kl: 0.0001
    ```
    No finding.

    ## Known false alarms
    Quantisation that the settings do not declare has the same signs.

    ## Remedy
    Compare a checksum of one tensor on both sides after a synchronisation. Declare the quantisation of the engine, or
    switch it off for one batch: the difference must vanish.

    ## Sources
    arXiv 2510.26788; huggingface/trl#5312; batches `other-weights` and `quantised` of benchmarks/mismatch.md.
    """
    share = each(share_of("other-weights"), mismatch_causes)
    return fires(
        share > least,
        "The rollout engine uses different weights (another checkpoint, adapter or choice of experts, or "
        "undeclared quantisation): this explains {share:.0%} of the log-probability difference ({size:.2g} nats).",
        hold=(1, 1),
        error=(share > least) & (rollout_gap > bad),
        share=share,
        size=each(effect_of("other-weights"), mismatch_causes),
    )
