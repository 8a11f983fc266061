from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column


@check(
    "LEN006",
    kind="defect",
    severity="error",
    explains=("PAD005",),
    invalidates=("rewards since step {onset}: they score text after the end of the turn",),
)
def repeated_eos_in_response(eot_per_response: Column, *, most_tokens: float = 1.05) -> Fires:
    """Responses contain more than one end-of-turn token.

    ## What it sees
    The check fires if responses have more than 1.05 end-of-turn tokens on 3 of 5 rows. Above 1.05, about one response
    in twenty continues after its end, or contains part of the prompt or the padding.

    ## Thresholds
    - `most_tokens`: mean number of end-of-turn tokens per response above which the check fires.

    ## Why it matters
    Text after the end of the turn is scored and trained on, and the policy learns to write both sides of the dialogue.

    ## Example
    ```text
    eot_per_response: 1x3 2.5x3
    ```
    Error at step 4: Responses contain 2.5 end-of-turn tokens on average instead of one.

    ```text
    eot_per_response: 1x6
    ```
    No finding.

    ## Known false alarms
    A trainer may also count padding if the end-of-turn token is the padding token. With tool use, a response contains
    several turns by design.

    ## Remedy
    Give generation the complete EOS set, and build the mask from positions, up to and including the first end token.

    ## Sources
    BoBaCai/grpo-dual (Llama-3, pad == eot); the issue threads listed with the remedy.
    """
    return fires(
        eot_per_response > most_tokens,
        "Responses contain {count:.3g} end-of-turn tokens on average instead of one.",
        count=eot_per_response,
    )
