from collections import Counter
from collections.abc import Sequence
from typing import Any

from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, each


@check(
    "GRD005",
    kind="outcome",
    severity="critical",
    confidence="medium",
    explains=("REW009", "REW015", "DIV004"),
    invalidates=("every checkpoint since step {onset}", "rewards since step {onset}"),
)
def token_zero_flood(
    samples: Column, *, flooded_from: float = 0.9, flooded_share: float = 0.5, least_responses: int = 4
) -> Fires:
    """Responses repeat a single token, which happens when the weights are NaN.

    ## What it sees
    The check fires if more than half of the saved responses of a step (at least four) are flooded. A response is
    flooded if a single character or word makes up more than 90% of the text. The response must have at least ten
    characters, ignoring spaces, or ten words.

    ## Thresholds
    - `flooded_from`: share of a single character or word in a response, 0 to 1, above which the response counts as
      flooded.
    - `flooded_share`: share of flooded responses in a step, 0 to 1, above which the check fires.
    - `least_responses`: number of saved responses below which a step is not judged.

    ## Why it matters
    The argmax over NaN logits is token 0, which is "!" in the vocabularies of Qwen and GPT-2. A response of "!!!!!!"
    therefore means that the weights are probably NaN, even if the trainer prints a loss of 0.0. Do not use any
    checkpoint saved after the onset.

    ## Example
    ```text
    reward_mean: 1 0 0
    samples.2: {"response": "!!!!!!!!!!!!!!!!"} x4
    ```
    Critical at step 2: 100% of the saved responses repeat a single token.

    ```text
    reward_mean: 1 0 0
    samples.2: {"response": "The cat sat on the mat."} x4
    ```
    No finding.

    ## Known false alarms
    The correct answer to a task may be one repeated character. Steps with fewer than four responses are not judged.

    ## Remedy
    Roll back to the last finite checkpoint, reset the optimizer state, and skip updates whose gradient is not finite.

    ## Sources
    volcengine/verl#721 (step 59: kl_loss, entropy_loss and grad_norm nan, outputs "!!!!"), verl#751, verl#891.
    """
    flooded = each(lambda row: _flooded(row, flooded_from, least_responses), samples)
    return fires(
        flooded > flooded_share,
        "{flooded:.0%} of the saved responses repeat a single token.",
        hold=(1, 1),
        flooded=flooded,
    )


def _flooded(samples: Sequence[Any], share: float, least: int) -> float:
    if len(samples) < least:
        return 0.0
    return sum(_one_token(sample.response, share) for sample in samples) / len(samples)


def _one_token(text: str, share: float) -> bool:
    words = text.split()
    units = words if len(words) >= 10 else list("".join(words))
    others = (1 - share) * len(units)
    if len(units) < 10 or len(set(units)) > others + 1:  # the usual case, far cheaper than counting
        return False
    return Counter(units).most_common(1)[0][1] > share * len(units)
