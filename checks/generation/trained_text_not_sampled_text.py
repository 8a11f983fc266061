from typing import Any

from grpo_doctor import Fires, any_of, check, fires, probe, probes
from grpo_doctor.series import Column, baseline, where

_OTHER_TEXT = "The score of the sampled ids differs from the recorded score, so different text was scored"
_OTHER_INPUT = "Rollout engine and trainer disagree before the first update: their tokens, positions or masks differ"


@check(
    "GEN005",
    kind="defect",
    severity="critical",
    confidence="medium",
    explains=("RAT004", "RAT005", "KL001", "KL006", "ADV003", "DIV004", "REW001", "REW009", "REW015", "STL001"),
    withholds={"lower-learning-rate": "the update uses different tokens than those sampled"},
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
    Either of two conditions. (1) Validity as scored differs by more than 0.02 from validity recomputed from the
    sampled ids, while at most 5 % of the texts contain template tokens (else it is PAD001). (2) The rollout engine's
    raw logits differ from the trainer's by more than 1e-2 nats per token on the first row. No update has happened, so
    the weights are equal, and the rollout was not in train mode with checkpointing. So the two passes used different
    tokens, positions or masks. Held on 3 of 5 rows.

    ## Thresholds
    - `gap`: difference of validity as scored and as recomputed, 0 to 1.
    - `header`: share of responses with template tokens, 0 to 1, up to which it is not PAD001.
    - `bad`: k3 on the first row, nats per token, above which different text is trained.

    ## Why it matters
    The advantage of one text is applied to the tokens of another. The run learns a little where they agree and drifts
    where they do not. The KL to the reference is large from the start.

    ## Known false alarms
    Quantised rollouts (fp8, int4) may reach 1e-2 on the first row.

    ## Remedy
    Pass ids, not text, from sampling to scoring to loss.

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


@probe(
    "GEN005",
    severity="critical",
    explains=(
        "PAD002",
        "PAD003",
        "TOK005",
        "RAT003",
        "RAT007",
        "LEN002",
        "ENT006",
        "ENT011",
        "GRD006",
        "GEN004",
        "KL006",
    ),
)
def probe_trained_ids(mask: Any, render: Any, tokenizer: Any, model: Any = None, prompts: Any = None) -> Fires | None:
    """## What this certifies, and what it does not
    It certifies that ids given to the batch come out unchanged. It cannot detect an earlier replacement: PAD001 finds
    rollouts that return different responses than sampled. TOK005 covers token splits that change through text.

    ## What the probe does
    Canary responses of 1 to 6 ids that survive decoding and encoding, with and without EOS, are put through the
    trainer's batch (or through its loss, on a watched model). Each row's last tokens must be the response. Where a
    custom sampling loop builds the batch, a response without EOS gets one to stop the loop, which is correct.
    """
    craft = probes.crafted_inputs
    own = [ids for _, ids in craft.rendered(render, prompts)]
    words = craft.plain_ids(tokenizer, model, own)
    pad, eos = craft.special_ids(tokenizer)[:2]
    rows = changed = dropped = added = 0
    for lengths in ([2, 3, 4, 6], [6, 2, 5, 3]):
        for case in craft.endings(lengths[: len(own)], eos):
            batch, responses = probes.generations.put_through(mask, own, craft.said(words, case, eos), eos)
            for n, (prompt, response) in enumerate(zip(own, responses, strict=True)):
                if craft.left_out(batch, n, response, eos):
                    continue  # overlong responses that are filtered on purpose
                rows += 1
                got = craft.row_ids(batch, n)
                whole = craft.response_positions(batch, n, response, prompt) is not None
                ended = response[-1] != eos and got[-len(response) - 1 :] == [*response, eos]
                ended = ended and bool(craft.trained_tokens(batch)[n, craft.real_positions(batch, n)[-1]])
                changed += ended or not whole
                added += ended
                # a model that is given all tokens but the last one is not given the last one that is left either, but
                # padding in its place
                bare = got[: len(got) - (got[-1:] == [pad])]
                ends = [k for k in (1, 2) if [*prompt, *response[:-k]] in (got, bare)]
                dropped += not whole and response[-1] == eos and bool(ends)
    return fires(
        changed > 0,
        "{changed} of {rows} responses reach the loss with different ids than sampled ({dropped} lost only EOS; "
        "{added} were truncated and got an EOS).",
        changed=changed,
        rows=rows,
        dropped=dropped,
        added=added,
    )
