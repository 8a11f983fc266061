from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column, baseline, where

_OTHER_TEXT = "The score of the sampled ids differs from the recorded score, so different text was scored"
_OTHER_INPUT = "Rollout engine and trainer disagree before the first update: their tokens, positions or masks differ"


@check(
    "GEN005",
    kind="defect",
    severity="critical",
    confidence="medium",
    explains=("RAT004", "RAT005", "KL001", "KL006", "ADV003", "DIV004", "REW001", "REW009", "REW015", "STL001"),
    withholds={"lower-learning-rate": "the tokens in the update differ from the sampled tokens"},
    invalidates=("rewards and updates since step {onset}: they belong to different text than the policy generated",),
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
    """The scored or trained text is not the text that the policy sampled.

    ## What it sees
    The check fires if the scored share of valid responses differs by more than 0.02 from the share recomputed from the
    sampled ids. At most 5% of the texts may contain template tokens, because otherwise PAD001 explains the difference.
    The check also fires if raw logits of rollout engine and trainer have differed by more than 0.01 nats per token
    since the first row. Before the first update, the weights are equal, so a difference shows that the two forward
    passes used different tokens, positions or masks. One of the two conditions must be true on 3 of 5 rows. Rows whose
    responses were generated in train mode with gradient checkpointing are excluded.

    ## Thresholds
    - `gap`: difference between the scored and the recomputed share of valid responses, 0 to 1, above which the check
      fires.
    - `header`: share of responses with template tokens, 0 to 1, above which PAD001 may explain the difference.
    - `bad`: KL on the first row (nats per token) above which rollout engine and trainer count as using different
      inputs. The KL is estimated as the mean of exp(x) - 1 - x over tokens (k3), where x is the log-probability
      difference.

    ## Why it matters
    The advantage of one text is applied to the tokens of another text. The run learns a little from tokens that occur
    in both texts, and the policy drifts on the other tokens. The KL to the reference model is large from the start.

    ## Example
    ```text
    rollout_mismatch_raw_kl: 2x5
    ```
    Critical at step 1: Rollout engine and trainer disagree before the first update: their tokens, positions or
    masks differ.

    ```text
    rollout_mismatch_raw_kl: 0.001x5
    ```
    No finding.

    ## Known false alarms
    With quantised rollouts (fp8, int4), the KL may reach 0.01 nats per token on the first row.

    ## Remedy
    Pass ids, not text, from sampling to scoring and to the loss.

    ## Sources
    Fault `kl-on-unformatted-prompt` of the engine; beita6969/colab-grpo's trainer before P23;
    trl#3520, NeMo-RL#855.
    """
    scored = (judged == judged) & (abs(reward_recomputed_gap) > gap) & ~(chat_header_rate > header)
    broken_mode = (generation_training_mode == 1) & (generation_checkpointing == 1)
    apart = (baseline(rollout_mismatch_raw_kl, 1) > bad) & (rollout_mismatch_raw_kl > bad) & ~broken_mode
    return fires(
        scored | apart,
        "{what}.",
        what=where(scored, _OTHER_TEXT, _OTHER_INPUT),
        gap=reward_recomputed_gap,
        mismatch=rollout_mismatch_raw_kl,
    )
