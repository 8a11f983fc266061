from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column


@check(
    "GEN004",
    kind="defect",
    severity="warning",
    confidence="medium",
    explains=(
        "RAT004",
        "RAT003",
        "RAT005",
        "DIV004",
        "REW001",
        "REW009",
        "REW015",
        "STL001",
        "LEN002",
        "LEN003",
        "PAD005",
    ),
    invalidates=("importance ratios since step {onset}",),
)
def sampling_filters_not_in_logprob(
    rollout_mismatch_kl: Column,
    rollout_mismatch_raw_kl: Column,
    top_p: Column = None,
    top_k: Column = None,
    temperature: Column = None,
    *,
    differ: float = 1e-3,
    bad: float = 1e-2,
    agree: float = 1e-4,
) -> Fires:
    """Sampling uses filters that the loss does not apply.

    ## What it sees
    The check fires if the raw logits of rollout engine and trainer agree (KL of at most 1e-4), but the engine's final
    scores do not. The KL is estimated as the mean of exp(x) - 1 - x over tokens (k3), where x is the log-probability
    difference. Severity is warning if the KL of the scores is above 0.001 on 3 of 5 rows, and error if it is above
    0.01. Raw logits and final scores differ only by temperature and logits processors: top-p, top-k, min-p, penalties,
    a minimum length, or a clip.

    ## Thresholds
    - `differ`: KL of the final scores (nats per token) above which the severity is warning.
    - `bad`: KL of the final scores (nats per token) above which the severity is error.
    - `agree`: maximum KL of the raw logits (nats per token) at which the logits count as equal.

    ## Why it matters
    The loss uses log-probabilities of a distribution that differs from the distribution that was sampled. A token that
    a mask forces has a log-probability near -15 under the policy, so it dominates the gradient.

    ## Example
    ```text
    rollout_mismatch_kl: 0.05x5
    rollout_mismatch_raw_kl: 0x5
    ```
    Error at step 1: Raw logits agree, but final scores differ by 0.05 nats/token: the loss does not apply the
    sampler's logits processors or temperature.

    ```text
    rollout_mismatch_kl: 0.0005x5
    rollout_mismatch_raw_kl: 0x5
    ```
    No finding.

    ## Known false alarms
    In tests, a small penalty alone did not lower the score (0.65 and 0.62 with the penalty, 0.63 without). The finding
    is therefore a note unless it explains another finding. A top-p of 0.99 gives a KL of about 0.001 nats per token.

    ## Remedy
    Use neutral sampling parameters and the same temperature in sampling and loss. Alternatively, use the
    log-probabilities after all processors in the loss.

    ## Sources
    Faults `penalty-over-prompt` and `double-temperature` of the engine; TRL documentation (temperature in the
    log-probs, processed_logprobs); grpo-dual (T 0.75, top-k 50, top-p 0.9, three penalties, loss on raw logits);
    Schulman et al. 2017 (arXiv 1707.06347), the clip.
    """
    filters = (abs(rollout_mismatch_raw_kl) <= agree) & (rollout_mismatch_kl > differ)
    return fires(
        filters,
        "Raw logits agree, but final scores differ by {scores:.3g} nats/token: the loss does not apply the "
        "sampler's logits processors or temperature.",
        error=filters & (rollout_mismatch_kl > bad),
        scores=rollout_mismatch_kl,
        raw=rollout_mismatch_raw_kl,
        top_p=top_p,
        top_k=top_k,
        temperature=temperature,
    )
