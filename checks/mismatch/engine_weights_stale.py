from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, baseline, each, where
from grpo_doctor.series.mismatch_parts import EXPLAINS, share_of, unexplained


@check(
    "MIS001",
    kind="defect",
    severity="warning",
    confidence="medium",
    explains=EXPLAINS,
    invalidates=("updates since step {onset}: their tokens come from an older policy",),
)
def engine_weights_stale(
    mismatch_causes: Column,
    rollout_gap: Column = None,
    *,
    least: float = 0.15,
    bad: float = 1e-2,
    equal: float = 1e-4,
    rest: float = 0.5,
) -> Fires:
    """The rollout engine samples with older weights than the trainer's.

    ## What it sees
    In a token batch, the log-probability differences are aligned with the changes that training made, either since the
    reference model or in the newest update. Alternatively, they grow with the recorded age of the weights. A batch may
    record no reference, no second forward pass and no weight versions. The engine's weights then count as stale if both
    sides agreed on the first batch (k3 KL below 1e-4) and most of the difference has no other cause. Severity is error
    above a k3 of 0.01, or if the engine still has the initial weights.

    ## Thresholds
    - `least`: share of the squared log-probability difference, 0 to 1, that the cause must explain.
    - `bad`: k3 KL, nats per token, for an error: RAT004's.
    - `equal`: k3 KL, nats per token, below which the first batch shows equal weights.
    - `rest`: minimum share of the difference without another cause, 0 to 1, that is attributed to the growth since the
      first batch.

    ## Why it matters
    Samples of an old policy are scored as if the current policy had drawn them, so every importance weight is off by
    the effect of the updates since then. If the engine never gets the adapter, the difference grows until the run
    fails.

    ## Example
    ```text
    mismatch_causes: {"stale": [0.5, 0.4]}
    rollout_mismatch_kl: 0.02
    ```
    Error at step 1: The rollout engine samples with stale weights. This explains 50% of the log-probability
    difference.

    ```text
    mismatch_causes: {}
    rollout_mismatch_kl: 0.0001
    ```
    No finding.

    ## Known false alarms
    Asynchronous training, whose rollouts are stale by design: with a correction in the loss, a small lag is harmless. A
    quantised engine whose error grows as the policy becomes sharper.

    ## Remedy
    Send the weights after every update, merge the adapter before the transfer, and clear the engine's prefix cache.

    ## Sources
    arXiv 2505.24298 (AReaL); NVIDIA-NeMo/RL#2631, vllm-project/vllm#29341, verl-project/verl#7495; batches `stale` and
    `initial-weights` of benchmarks/mismatch.md.
    """
    initial = each(share_of("initial-weights"), mismatch_causes)
    along = each(share_of("stale", "initial-weights"), mismatch_causes)
    grown = where(baseline(rollout_gap, 1) < equal, each(unexplained, mismatch_causes), 0.0)
    share = where((along < least) & (rollout_gap > equal) & (grown > rest), grown, along)
    return fires(
        share > least,
        "The rollout engine {what}. This explains {share:.0%} of the log-probability difference.",
        hold=(1, 1),
        error=(share > least) & ((initial > least) | (rollout_gap > bad)),
        what=where(initial > least, "still has the initial weights", "samples with stale weights"),
        share=share,
    )
