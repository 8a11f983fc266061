from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, baseline, isnan, moving_median, previous, where, words
from grpo_doctor.series.mismatch_parts import sudden, unchanged


@check(
    "RAT004",
    kind="defect",
    severity="warning",
    confidence="medium",
    explains=("RAT003", "RAT005", "RAT008", "MIS015", "KL001", "GRD002"),
    invalidates=("updates since step {onset}: their tokens come from a different distribution",),
)
def rollout_trainer_logprob_mismatch(
    rollout_gap: Column,
    rollout_mismatch_kl: Column = None,
    rollout_prob_diff: Column = None,
    rollout_mismatch_raw_kl: Column = None,
    reward_gained: Column = None,
    learning_rate: Column = None,
    step: Column = None,
    *,
    warn: float = 2e-3,
    experts: float = 3e-3,
    probability: float = 1e-2,
    bad: float = 1e-2,
    broken: float = 1e-1,
    grown: float = 2.0,
) -> Fires:
    """The rollout engine and the trainer assign different probabilities to the sampled tokens.

    ## What it sees
    The check uses the KL between rollout engine and trainer, in nats per token. The KL is estimated as the mean of
    exp(x) - 1 - x over tokens (k3), where x is the log-probability difference. The check fires if a limit is exceeded
    on 2 of 3 rows. The KL is recorded, or estimated as pi/4 d^2 from the mean absolute difference d of the
    log-probabilities. Severity is **warning** above 0.002 (d = 0.05, a factor of 1.05 per token), or at a mean
    probability difference above 0.01. Up to a KL of 0.01, severity is **info** if the reward has improved. Severity is
    also **info** if the KL was between 0.002 and 0.01 on the first row and has not doubled since. Severity is **error**
    above 0.01 (d = 0.11) if the reward has not improved. Severity is **critical** above 0.1 (d = 0.36), but **error**
    if the KL was not recorded. Severity is also **critical** if the median of five rows is above 0.01 and has doubled
    within 20 rows. If the raw logits of the rollout engine are also recorded, they show on which side the cause is.

    ## Thresholds
    - `warn`: KL, in nats per token, above which the severity is warning.
    - `experts`: KL, in nats per token, up to which a steady difference since the first row is not reported.
    - `probability`: mean difference between the probabilities of engine and trainer, 0 to 1, above which the severity
      is warning.
    - `bad`: KL, in nats per token, above which the severity is error.
    - `broken`: KL, in nats per token, above which the severity is critical.
    - `grown`: multiple of the first row's KL up to which the KL counts as steady.

    ## Why it matters
    Policy gradients assume that the tokens were sampled from the policy that is updated. If the tokens come from a
    different policy, "on-policy" training is off-policy without a correction. Unlikely tokens are affected most, and
    gradient norm and entropy spike. At step 1 or 2, the mismatch is the most informative metric. The mismatch reveals a
    broken generation mode, stale weights, a different prompt, or a temperature that is applied twice.

    ## Example
    ```text
    rollout_mismatch_kl: 0.0005x5 0.01x5
    ```
    Warning at step 6: The log-probabilities of rollout engine and trainer differ by 0.01 nats/token (estimated KL).
    The raw logits of the rollout engine are not recorded.

    ```text
    rollout_mismatch_kl: 0.0005x10
    ```
    No finding.

    ## Known false alarms
    Inference engines in bf16 give about 0.001 without any bug, and about 0.002 with a mixture of experts, starting at
    the first row. In float32, a healthy run stays below 1e-8. For a repetition penalty over the response, severity is
    **info**, because the penalty did not lower the score (0.65, compared with 0.63 without the penalty). Quantised
    engines and asynchronous rollouts differ by design. If the reward still gains, severity stays **warning**.

    ## Remedy
    First find out whether rollout engine or trainer is wrong. Then use truncated importance sampling (TRL default, verl
    `rollout_correction`, OpenRLHF `is_correction`), one precision, and the same temperature and processors in the loss.

    ## Sources
    Yao et al. 2025 (TIS); arXiv 2510.26788; NeMo-RL guide (factor at most 1.05); Tinker's documentation of RL
    hyperparameters (stable below 0.01); arXiv 2510.11370 (1.5e-3 with experts, 6e-4 without); verl FAQ (probability
    difference normally below 0.005, above 0.01 a fault of the engine); vllm-project/vime#274 (below 0.05 nats); faults
    of the built-in engine. huggingface/trl#5312, THUDM/slime#1411, NVIDIA-NeMo/RL#1801 and #2895.
    """
    level = moving_median(rollout_gap, 5)
    doubled = (level > bad) & (level > 2 * previous(level, 20))
    inferred = isnan(rollout_mismatch_kl)
    first = baseline(rollout_gap, 1)
    always = (first > broken) | ((first > warn) & (rollout_gap <= grown * first))
    steady = always & (first <= bad) & (rollout_gap <= bad)
    off = ((rollout_gap > warn) & ~(steady & (rollout_gap <= experts))) | (rollout_prob_diff > probability)
    tolerated = (steady | (reward_gained & (rollout_gap <= bad))) & ~(rollout_prob_diff > probability)
    severe = ((rollout_gap > bad) & ~reward_gained) | (rollout_gap > broken)
    return fires(
        off & ~tolerated,
        "The log-probabilities of rollout engine and trainer differ by {k3:.3g} nats/token ({how}). {side}.",
        hold=(2, 3),
        info=off,
        error=severe,
        critical=(~inferred & (rollout_gap > broken)) | doubled,
        k3=rollout_gap,
        how=where(inferred, "KL estimated from the mean difference", "estimated KL"),
        raw=rollout_mismatch_raw_kl,
        side=words(
            _side,
            rollout_mismatch_raw_kl,
            always,
            steady,
            sudden(rollout_gap, step),
            unchanged(learning_rate),
            warn,
        ),
    )


def _side(raw: float, always: bool, steady: bool, leap: bool, frozen: bool, warn: float) -> str:
    """Return advice that depends on the raw logits, or otherwise on how the difference began."""
    if raw > warn:
        return "The raw logits also differ: check weights, train/eval mode and prompt"
    if raw <= warn:
        return "The raw logits agree: check logits processors and temperature"
    if steady:
        return "The difference has existed since the first row, as in bf16 engines with a mixture of experts"
    if always:
        return "The difference has existed since the first row: check the engine (weights, kernels, log-probabilities)"
    if leap:
        return "The difference jumped, which one update does not cause: check for other changes (mask, kernels, inputs)"
    if frozen:
        return "The learning rate is 0: check the engine's cache and kernels instead of the weight transfer"
    return "The raw logits of the rollout engine are not recorded"
