import numpy as np

from grpo_doctor import Fires, Rival, any_of, check, fires
from grpo_doctor.remedies import remedy
from grpo_doctor.stats import Column, baseline


@check(
    "GEN005",
    severity="critical",
    confidence="medium",
    explains=("RAT004", "RAT005", "KL001", "KL006", "ADV003", "DIV004", "REW001", "REW009", "STL001"),
    withholds={"lower-learning-rate": "the update is computed for other tokens than those sampled"},
    rivals=(
        Rival(
            "attention mask or position ids are missing in one of the two passes",
            "left padding then shifts positions",
            "the probe PAD004: one row alone and in a padded batch",
        ),
        Rival(
            "a prompt that is rendered differently for the log-probabilities",
            "double BOS, or the raw text instead of the template",
            "the prompt ids of both passes (TOK001, TOK002)",
        ),
        Rival(
            "precision of two engines",
            "bf16 kernels differ by about 1e-3, not by 1e-2",
            "one batch in float32",
        ),
        Rival(
            "text that is decoded and encoded again",
            "ids change at merges",
            "the probe TOK005",
        ),
    ),
    remedies=(
        remedy(
            "train-on-sampled-ids",
            "Score and train the very ids that were sampled",
            by_hand="keep prompt_ids and response_ids from generate; decode a copy for the scorer; compute "
            "log-probs on "
            "cat([prompt_ids, response_ids]) with the same attention_mask and position_ids",
            trl="hand prompt_ids and completion_ids on unchanged in rollout_func; score decode(completion_ids)",
            verl="return token ids from the agent loop, not text (actor_rollout_ref.rollout.mode=async keeps them)",
            openrlhf="return observation tokens, not text, from the agent executor",
            evidence="log-probs on the raw prompt text: reward 0.47 against 0.63, mismatch 0.39 from step 1",
            source="throw-away engine; beita6969/colab-grpo (trained on expanded code until P23)",
        ),
    ),
    invalidates=("rewards and updates since step {onset}: they belong to other text than the policy wrote",),
)
def trained_text_not_sampled_text(
    judged: Column = any_of("reward_recomputed_gap", "rollout_mismatch_raw_kl"),
    reward_recomputed_gap: Column = None,
    rollout_mismatch_raw_kl: Column = None,
    chat_header_rate: Column = None,
    generation_training_mode: Column = None,
    generation_checkpointing: Column = None,
    *,
    gap: float = 0.02,
    header: float = 0.05,
    bad: float = 1e-2,
) -> Fires:
    """What is scored or trained is not what the policy sampled.

    ## What it sees
    Either of two. (1) Validity as scored differs by more than 0.02 from validity recomputed from the sampled ids,
    while at most 5 % of the texts hold template tokens (else it is PAD001). (2) The generator's raw logits differ from
    the trainer's by more than 1e-2 nats per token on the first row already: no update has happened, so the weights are
    equal, and the rollout was not made in train mode with checkpointing; the two passes must have seen other tokens,
    positions or masks. Held on 3 of 5 rows.

    ## Why it matters
    The advantage of one text is put on the tokens of another. The run learns a little where they agree and drifts
    where they do not; KL to the reference is large from the start.

    ## Known false alarms
    Quantised rollouts (fp8, int4) may reach 1e-2 on the first row.

    ## Remedy
    Pass ids, not text, from sampling to scoring to loss.

    ## Sources
    Throw-away engine (mismatch 0.39, KL 0.81 from step 1); document 002's trainer before P23; trl#3520, NeMo-RL#855.
    """
    scored = ~np.isnan(judged) & (np.abs(reward_recomputed_gap) > gap) & ~(chat_header_rate > header)
    broken_mode = (generation_training_mode == 1) & (generation_checkpointing == 1)
    apart = (baseline(rollout_mismatch_raw_kl, 1) > bad) & (rollout_mismatch_raw_kl > bad) & ~broken_mode
    return fires(
        scored | apart,
        "{what}.",
        what=_WHAT[np.where(scored, 0, 1)],
        gap=reward_recomputed_gap,
        mismatch=rollout_mismatch_raw_kl,
    )


_WHAT = np.array(
    [
        "The score of the sampled ids is not the score that was given: other text was scored",
        "Generator and trainer disagree before the first update: they do not see the same tokens, positions or mask",
    ],
    object,
)
