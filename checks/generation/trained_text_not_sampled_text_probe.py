from typing import Any

from grpo_doctor import Fires, fires, probe, probes


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
    The probe certifies that the response ids reach the batch unchanged. The probe cannot detect a replacement before
    that point: PAD001 covers rollouts that return responses other than the sampled ones. TOK005 covers ids that change
    when they are decoded and encoded again.

    ## What the probe does
    The probe passes canary responses through the trainer's batch, or through the trainer's loss if the loss derives its
    own batch. Canary responses have 1 to 6 ids that stay the same when they are decoded and encoded again, with or
    without EOS. The last tokens of each row must be the response. If a custom sampling loop builds the batch, the probe
    ends each response with EOS to stop the loop. The added EOS counts as sampled.
    """
    craft = probes.crafted_inputs
    own = [ids for _, ids in craft.rendered(render, prompts)]
    words = craft.plain_ids(tokenizer, model, own)
    pad, eos = craft.special_ids(tokenizer)[:2]
    rows = changed = dropped = added = 0
    shown = ""
    for direction, lengths, endings in craft.ORDERS:
        limit = None
        for ending in range(endings if eos is not None else 1):
            # two tokens or more: a response that is only an end token may leave an empty mask, which PAD002 reports
            case = craft.endings([n + 1 for n in lengths[: len(own)]], eos, limit)[ending]
            given = own[::direction]
            batch, responses = probes.generations.put_through(
                mask, given, craft.canary_responses(words, case, eos), eos
            )
            limit = craft.room(batch, given, responses)  # a fixed width, which only truncated responses fill
            for n, (prompt, response) in enumerate(zip(given, responses, strict=True)):
                if craft.left_out(batch, n, response, eos):
                    continue  # overlong responses that are filtered by design
                rows += 1
                got = craft.row_ids(batch, n)
                whole = craft.response_positions(batch, n, response, prompt) is not None
                ended = response[-1] != eos and got[-len(response) - 1 :] == [*response, eos]
                ended = ended and bool(craft.trained_tokens(batch)[n, craft.real_positions(batch, n)[-1]])
                changed += ended or not whole
                if ended or not whole:
                    shown = shown or f"prompt {prompt}, response {response}, ids in the loss {got}"
                added += ended
                # if the loss drops EOS and passes all tokens but the last to the model, the row ends with padding
                bare = got[: len(got) - (got[-1:] == [pad])]
                ends = [k for k in (1, 2) if [*prompt, *response[:-k]] in (got, bare)]
                dropped += not whole and response[-1] == eos and bool(ends)
    return fires(
        changed > 0,
        "{changed} of {rows} responses reach the loss with ids that differ from the sampled ids ({dropped} lost only "
        "EOS; {added} were truncated and got an EOS).",
        changed=changed,
        rows=rows,
        dropped=dropped,
        added=added,
        crafted=shown,
    )
