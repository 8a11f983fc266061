from grpo_doctor import Fires, Rival, check, fires
from grpo_doctor.stats import Column, moving_median, previous, where


@check(
    "RAT004",
    severity="warning",
    confidence="medium",
    explains=("RAT003", "RAT005", "KL001", "GRD002"),
    rivals=(
        Rival(
            "generation in train mode, stale weights, or another prompt",
            "the raw logits of generator and trainer differ",
            "rollout_mismatch_raw_kl above 1e-3 (GEN001, GEN002, GEN005)",
        ),
        Rival(
            "processors or temperature",
            "penalties, top-k, top-p, min_new_tokens or T that the loss does not know",
            "rollout_mismatch_raw_kl below 1e-3 while the final scores disagree (GEN004)",
        ),
        Rival(
            "precision of two engines",
            "bf16 kernels differ by about 1e-3 with nothing broken",
            "the same batch in float32: below 1e-8",
        ),
    ),
    remedies=("correct-rollout-mismatch",),
    invalidates=("updates since step {onset}: they were computed for tokens of another distribution",),
)
def rollout_trainer_logprob_mismatch(
    rollout_mismatch_kl: Column,
    rollout_mismatch_raw_kl: Column = None,
    *,
    warn: float = 1e-3,
    bad: float = 1e-2,
    broken: float = 1e-1,
) -> Fires:
    """The generator and the trainer give the sampled tokens different probabilities.

    ## What it sees
    k3 of the trainer's log-probabilities against the generator's final scores, nats per token, on 2 of 3 rows:
    warning above 1e-3, error above 1e-2, critical above 1e-1, or when the median of five rows is above 1e-2 and has
    doubled within 20 rows. Where the generator's raw logits are recorded too, it says on which side the cause lies.

    ## Why it matters
    Policy gradients assume that the tokens were drawn from the policy that is updated. If not, "on-policy" training
    is off-policy without a correction; it hurts most at unlikely tokens, and gradient norm and entropy spike with it.
    It is the most telling record there is: a broken generation mode, stale weights, a prompt that is rendered
    differently, a clip or a temperature applied twice all show here at step 1 or 2.

    ## Known false alarms
    In float32 a healthy run stays below 1e-8; bf16 inference engines give about 1e-3, hence only a warning there. A
    penalty over the response only costs 0.02 and did no harm (0.65 against 0.63): true, but a note.

    ## Remedy
    Find the side first. Then truncated importance sampling (TRL default, verl `rollout_correction`, OpenRLHF
    `is_correction`), one precision, and the same temperature and processors in the loss.

    ## Sources
    Yao et al. 2025 (TIS); arXiv 2510.26788; NeMo-RL guide ("below 1e-3 acceptable"); verl flags 0.1; engine notes:
    healthy below 2e-9, eleven faults above 1e-3 at step 1 or 2.
    """
    level = moving_median(rollout_mismatch_kl, 5)
    doubled = (level > bad) & (level > 2 * previous(level, 20))
    side = where(
        rollout_mismatch_raw_kl > warn,
        "the raw logits differ as well, so look at weights, mode and prompt",
        where(
            rollout_mismatch_raw_kl <= warn,
            "the raw logits agree, so look at processors and temperature",
            "the generator's raw logits are not recorded",
        ),
    )
    return fires(
        rollout_mismatch_kl > warn,
        "Generator and trainer disagree by {k3:.3g} nats per token (k3); {side}.",
        hold=(2, 3),
        error=rollout_mismatch_kl > bad,
        critical=(rollout_mismatch_kl > broken) | doubled,
        k3=rollout_mismatch_kl,
        raw=rollout_mismatch_raw_kl,
        side=side,
    )
