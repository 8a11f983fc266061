import numpy as np

from grpo_doctor import Fires, Rival, any_of, check, fires
from grpo_doctor.remedies import remedy
from grpo_doctor.stats import Column, baseline, moving_median, previous


@check(
    "GEN002",
    severity="error",
    confidence="medium",
    explains=("RAT004", "RAT005", "KL001", "STL001", "REW009", "DIV004", "GRD002"),
    withholds={
        "lower-learning-rate": "the rollouts come from old weights; a smaller step only delays the divergence",
        "raise-group-size": "more responses of an old policy do not help",
    },
    rivals=(
        Rival(
            "precision of two engines",
            "sharper policies disagree more between kernels",
            "one batch in float32 on both sides: it must be below 1e-8",
        ),
        Rival(
            "an adapter that is not merged into the engine",
            "the engine then plays the base model",
            "log-probs of a canary prompt under the base model and under the adapter",
        ),
        Rival(
            "generation in train mode (GEN001)",
            "it comes and goes with the mode, instead of growing",
            "the mode flags of the rollout",
        ),
    ),
    remedies=(
        remedy(
            "sync-rollout-weights",
            "Send the weights to the generator after every update, and prove it by a canary",
            by_hand="after optimizer.step(): engine.load_weights(model.state_dict().items()); then compare "
            "log-probs of one "
            "fixed prompt on both sides",
            trl="vllm_mode='colocate' or a running `trl vllm-serve`; watch sampling/sampling_logp_difference/mean",
            verl="actor_rollout_ref.rollout.calculate_log_probs=True; watch training/rollout_probs_diff_mean; "
            "free_cache_engine with sleep level 1",
            openrlhf="--vllm.sync_backend nccl; watch vllm_kl",
            evidence="mended at step 31: true reward 0.26 → 0.63, clean evaluation 0.35 → 0.67 at step 70",
            source="throw-away engine, remedies table; NeMo-RL#2631, vllm#29341, trl#5312, verl-omni#552",
        ),
    ),
    invalidates=("updates since step {onset}: their samples are those of an older policy",),
)
def stale_rollout_weights(
    mismatch: Column = any_of("rollout_mismatch_raw_kl", "rollout_mismatch_kl"),
    generation_training_mode: Column = None,
    generation_checkpointing: Column = None,
    *,
    equal: float = 1e-3,
    bad: float = 1e-2,
    times: float = 3.0,
    rows: int = 10,
) -> Fires:
    """The generator still plays older weights: its distance from the trainer grows with every update.

    ## What it sees
    k3 between trainer and generator (raw logits, else final scores) is below 1e-3 on the first row, where no update
    has happened, is above 1e-2 now, and its median of 5 rows has tripled within 10 rows or stands above 30 times the
    limit of equality. Rows generated in train mode with checkpointing are left out (GEN001). Held on 3 of 5 rows.

    ## Why it matters
    Samples of an old policy are scored as if the present one had drawn them. The policy runs away from its samples:
    reward stays flat while KL and gradient grow.

    ## Known false alarms
    Asynchronous training with a declared lag shows a mismatch that stays level. Half-precision engines show 1e-3.

    ## Remedy
    Synchronise after every update and prove it by a canary prompt; merge the adapter before the transfer.

    ## Sources
    Throw-away engine (0.11 after the first updates, 1.02 at step 60; reward 0.25 against 0.63); NeMo-RL#2631,
    vllm#29341, trl#5312, verl-omni#552, ms-swift#9855.
    """
    broken_mode = (generation_training_mode == 1) & (generation_checkpointing == 1)
    now = moving_median(np.abs(mismatch), 5)
    grown = (now > times * previous(now, rows)) | (now > 30 * equal)
    began = baseline(np.abs(mismatch), 1)
    return fires(
        (began < equal) & (now > bad) & grown & (np.abs(mismatch) > bad) & ~broken_mode,
        "Generator and trainer agreed on the first row and now differ by {now:.3g} nats per token: the generator plays "
        "older weights.",
        now=now,
        first=began,
    )
