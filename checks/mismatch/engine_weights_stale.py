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
    The check fires if the log-probability differences between engine and trainer are aligned with the policy's changes
    since the reference model or in the newest update. The check also fires if the differences grow with the recorded
    age of the weights. If a token batch contains no reference log-probabilities, no second forward pass and no weight
    versions, the check uses the growth of the difference. Without these records, weights count as stale if both sides
    agreed on the first batch (KL below 1e-4) and most of the difference is unexplained. Severity is error if the KL is
    above 0.01 nats per token, or if the engine still has the initial weights. The KL is estimated as the mean of
    exp(x) - 1 - x over tokens (k3), where x is the log-probability difference.

    ## Thresholds
    - `least`: share of the squared log-probability difference, 0 to 1, above which stale weights count as a cause.
    - `bad`: KL, in nats per token, above which the severity is error, as in RAT004.
    - `equal`: KL on the first batch, in nats per token, below which rollout engine and trainer count as having started
      with equal weights.
    - `rest`: share of the difference without another cause, 0 to 1, above which the growth since the first batch is
      attributed to stale weights.

    ## Why it matters
    Samples of an old policy are scored as if the current policy had drawn them. Every importance weight is off by the
    effect of the updates that the engine has not received. If the engine never receives the adapter, the difference
    grows until the run fails.

    ## Example
    ```text
    mismatch_causes: {"stale": [0.5, 0.4]}
    rollout_mismatch_kl: 0.02
    ```
    Error at step 1: The rollout engine samples with stale weights. The older weights explain 50% of the log-probability
    difference.

    ```text
    mismatch_causes: {}
    rollout_mismatch_kl: 0.0001
    ```
    No finding.

    ## Known false alarms
    Asynchronous training uses stale rollouts by design; with a correction in the loss, a small lag is harmless. The
    error of a quantised engine also grows as the policy becomes sharper.

    ## Remedy
    Transfer the weights after every update, merge the adapter before the transfer, and clear the engine's prefix cache.

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
        "The rollout engine {what}. The older weights explain {share:.0%} of the log-probability difference.",
        hold=(1, 1),
        error=(share > least) & ((initial > least) | (rollout_gap > bad)),
        what=where(initial > least, "still has the initial weights", "samples with stale weights"),
        share=share,
    )
