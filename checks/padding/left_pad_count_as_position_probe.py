from typing import Any

from grpo_doctor import Fires, fires, probe, probes


@probe(
    "PAD001",
    severity="critical",
    explains=("PAD005", "REW005", "GEN005"),
)
def probe_extraction(
    extract: Any, render: Any, tokenizer: Any, model: Any = None, prompts: Any = None, rollout: Any = None
) -> Fires | None:
    """## What this certifies, and what it does not
    The probe certifies the boundary between prompt and response for the adapter's prompts. The probe does not cover
    later processing of the text (stripping, parsing, truncation by the judge) or the loss mask (PAD002).

    ## What the probe does
    The probe pads prompts of unequal length on the left. The probe appends canary responses of several lengths, with
    and without EOS, whose ids occur in no prompt. The trainer's own extraction must return exactly the canary ids. Two
    further prompts contain an EOS in the middle, so a count of pad ids is wrong for both if pad equals EOS.
    """
    craft = probes.crafted_inputs
    special = craft.special_ids(tokenizer)
    own = [ids for _, ids in craft.rendered(render, prompts, padded=True)]
    words = craft.plain_ids(tokenizer, model, own)
    rolled = getattr(rollout, "extract", None)
    ways = [extract] if rolled is None or extract == rolled else [extract, rolled]
    parts = [_of_way(way, own, words, special, tokenizer, model) for way in ways]
    wrong, rows, padded = (sum(counts[n] for counts, _ in parts) for n in range(3))
    shown = next((call for _, call in parts if call), "")
    return fires(
        wrong > 0,
        "{wrong} of {rows} extracted responses differ from the generated responses ({padded} in padded rows).",
        wrong=wrong,
        rows=rows,
        padded=padded,
        crafted=shown,
    )


def _of_way(extract: Any, own: Any, words: Any, special: Any, tokenizer: Any, model: Any) -> tuple[list[int], str]:
    """Count wrong responses, all responses, and wrong responses in padded rows. Return the counts and the call that
    returned the first wrong response."""
    import torch

    craft = probes.crafted_inputs
    wrong = rows = padded = 0
    shown = ""
    for batch, lengths in _batches(own, words, special.eos):
        for case in craft.endings(lengths, special.eos):
            canaries = craft.canary_responses(words[8:] or words, case, special.eos)
            ids, real = craft.pad_left(batch, special.pad, craft.device_of(model))
            tokens = torch.cat([ids, craft.pad_right(canaries, special.pad, ids.device)], 1)
            try:
                found = craft.split_rows(extract(tokens, ids, real), [len(c) for c in canaries])
            except probes.Unjudged:
                if rows:
                    break  # a composite entry point does not accept scripted prompts
                raise
            for canary, got, row in zip(canaries, found, real, strict=True):
                rows += 1
                if not craft.agrees(got, canary, tokenizer):
                    wrong += 1
                    padded += bool((row == 0).any())
                    shown = shown or probes.saved_cases.as_code("extract", tokens, ids, real)
    return [wrong, rows, padded], shown


def _batches(own: list[list[int]], words: list[int], eos: int | None) -> list[tuple[list[list[int]], list[int]]]:
    batches = [(own, [6, 3, 2, 5][: len(own)]), (own[::-1], [2, 5, 4, 3][: len(own)]), (own[-1:], [4])]
    if eos is not None:
        made = [[words[0], eos, words[1]], [words[2], eos, words[3], eos, *words[:4]]]
        batches.append((made, [3, 4]))
    return batches
