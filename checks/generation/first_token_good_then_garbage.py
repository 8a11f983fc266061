from collections import Counter
from typing import Any

from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, each, fold, total

LOOKED_AT = 400
"""Number of characters of a response that are examined."""


@check("GEN003", kind="defect", severity="error", explains=("DIV004",))
def first_token_good_then_garbage(samples: Column, *, least_invalid: int = 10, noise_share: float = 0.6) -> Fires:
    """Invalid responses start like valid ones and then turn into garbage.

    ## What it sees
    The check compares invalid responses with valid ones. The check counts the invalid responses that start with the
    first word of valid responses and then turn into garbage. Garbage consists mostly of digits, spaces and punctuation,
    or repeats the same pairs of words. The check fires if at least 60% of the invalid responses turn into garbage, once
    there are ten invalid responses.

    ## Thresholds
    - `least_invalid`: number of invalid responses below which the check is silent.
    - `noise_share`: minimum share of invalid responses, 0 to 1, that start like a valid response and turn into garbage.

    ## Why it matters
    The first token is predicted from the whole prompt, and the later tokens are predicted from the KV cache. A correct
    start followed by garbage indicates a lost KV cache or wrong positions. A lost KV cache and wrong positions are bugs
    in the code, not problems of the policy.

    ## Example
    ```text
    loss: 0.1x3
    samples.1: {"response": "Custom -> Review -> done", "valid": true} x4
    samples.2: {"response": "Customizing the 11. 1. 1. 111. 1. 1.", "valid": false} x10
    ```
    Error at step 2: 100% of 10 invalid responses start like a valid response and turn into garbage.

    ```text
    loss: 0.1x3
    samples.1: {"response": "Custom -> Review -> done", "valid": true} x4
    samples.2: {"response": "I cannot answer that question.", "valid": false} x10
    ```
    No finding.

    ## Known false alarms
    In some tasks, valid responses consist mostly of numbers.

    ## Remedy
    Run the probes GEN001 (generation compared with eval mode) and PAD004 (positions under padding).

    ## Sources
    beita6969/colab-grpo's log: "Programmer's 11. 11. 1.", "Customizing the 11. 1. 1."; in train mode with
    checkpointing, a tiny model predicts 100% of the first tokens and 4.5% of the later tokens correctly.
    """
    count = total(each(lambda row: len(_invalid(row)), samples))
    share_now = fold(_Starts.marked, _Starts, samples) / count
    return fires(
        (count >= least_invalid) & (share_now >= noise_share),
        "{marked:.0%} of {invalid} invalid responses start like a valid response and turn into garbage.",
        hold=(1, 1),
        marked=share_now,
        invalid=count,
    )


def _invalid(samples: list[Any]) -> list[str]:
    return [s.response[:LOOKED_AT] for s in samples if s.valid is False and s.response]


class _Starts:
    """Collects the first words of valid responses, and counts invalid responses that start with these words and turn
    into garbage."""

    def __init__(self) -> None:
        self.words: Counter[str] = Counter()
        self.seen = 0

    def copy(self) -> "_Starts":
        other = _Starts()
        other.words, other.seen = self.words.copy(), self.seen
        return other

    @staticmethod
    def marked(state: "_Starts", samples: list[Any]) -> tuple["_Starts", float]:
        for sample in samples:
            first = sample.response[:LOOKED_AT].split(None, 1)[:1] if sample.valid else ()
            if first and len(state.words) < 1000:
                state.words[first[0]] += 1
        invalid = _invalid(samples)
        if invalid:
            usual = tuple(w for w, n in state.words.most_common(50) if n >= 2 and len(w) > 2)
            state.seen += sum(_begins_well(text, usual) for text in invalid)
        return state, float(state.seen)


def _begins_well(text: str, usual: tuple[str, ...]) -> bool:
    if not text.startswith(usual):
        return False
    start = next(word for word in usual if text.startswith(word))
    rest = text[len(start) :]
    letters = sum(c.isalpha() for c in rest)
    pairs = list(zip(rest.split(), rest.split()[1:], strict=False))
    repeated = len(pairs) >= 4 and len(set(pairs)) < len(pairs) / 2
    return len(rest) >= 3 and (letters < len(rest) / 2 or repeated)
