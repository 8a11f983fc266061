from grpo_doctor import Fires, Rival, any_of, check, fires
from grpo_doctor.diagnosis.remedies import remedy
from grpo_doctor.series import Column, is_any, moving_mean


@check(
    "RAT001",
    severity="warning",
    explains=("RAT005",),
    rivals=(
        Rival(
            "old and new log-probabilities disagree before any update",
            "dropout, another temperature or another engine clip tokens that never moved",
            "ratio_first_minibatch: not 0 before the first step (RAT003, RAT004)",
        ),
        Rival("sequence-level ratios", "GSPO clips two orders of magnitude more tokens", "importance_sampling_level"),
    ),
    remedies=(
        remedy(
            "fewer-updates-per-rollout",
            "Make fewer or smaller updates on each rollout",
            trl="num_iterations=1; steps_per_generation = gradient_accumulation_steps",
            verl="actor_rollout_ref.actor.ppo_epochs=1; ppo_mini_batch_size = data.train_batch_size",
            openrlhf="--train.max_epochs 1; --train.batch_size = --rollout.batch_size",
            by_hand="one optimizer step per rollout, then sample again",
            evidence="2 passes of 8 minibatches: 75 % with 5 % of the tokens clipped; 16 passes: collapse",
            source="ShibukiZero/assignment5-alignment, broad_e2_tb32 against broad_e16_tb256",
        ),
        "lower-learning-rate",
    ),
)
def clip_fraction_high(
    clip_fraction: Column,
    advantage_std: Column = None,
    level: Column = any_of("settings.importance_sampling_level", optional=True),
    loss_type: Column = any_of("settings.loss_type", optional=True),
    *,
    rows: int = 10,
    warn: float = 0.2,
    bad: float = 0.4,
) -> Fires:
    """A large share of the tokens is clipped, so the update no longer follows the advantages of the rollout.

    ## What it sees
    The share of tokens whose ratio is clipped, mean over ten rows: warning above 0.2, error above 0.4. Skipped for
    sequence-level ratios (GSPO) and for CISPO, which clip by design. Rows on which all advantages are equal do not
    count: nothing is there that a clip could take away.

    ## Thresholds
    - `rows`: rows over which the share is averaged.
    - `warn`: share of clipped tokens, 0 to 1, for a warning.
    - `bad`: the same share for an error.

    ## Why it matters
    A clipped token has no gradient. If many are clipped, the policy has left the region for which the rollout's
    advantages were computed: too many updates per rollout, too high a learning rate, or log-probabilities that were
    never comparable. High-side clipping alone asks for clip-higher; low-side alone says that negatives push too hard.

    ## Known false alarms
    Sequence-level clipping that the log does not declare. Single rows: a healthy off-policy run (75 %) peaks at 0.15
    and stays at 0.05; only the mean counts here. Real runs that ended in collapse had 0.25 to 1.0.

    ## Remedy
    Fewer updates per rollout; half the learning rate; if only the upper side is clipped, TRL `epsilon_high=0.28`.

    ## Sources
    TRL `clip_ratio/region_mean`, verl `actor/pg_clipfrac`; arXiv 2507.18071 (GSPO); public CS336 runs as above.
    """
    by_design = is_any(level, "sequence") | is_any(loss_type, "gspo", "cispo")
    share = moving_mean(clip_fraction, rows)
    counts = ~by_design & ~(advantage_std == 0)
    return fires(
        (share > warn) & counts,
        "{share:.0%} of the tokens were clipped over ten rows.",
        error=(share > bad) & counts,
        share=share,
    )
