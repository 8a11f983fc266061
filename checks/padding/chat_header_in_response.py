from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, began, moving_mean


@check(
    "PAD005",
    kind="defect",
    severity="warning",
    explains=("DIV004",),
    invalidates=("rewards since step {onset} of responses that contain template tokens",),
)
def chat_header_in_response(
    chat_header_rate: Column, step: Column, *, rows: int = 5, warn: float = 0.02, bad: float = 0.05
) -> Fires:
    """Responses contain chat template tokens.

    ## What it sees
    Over 5 rows, the check averages the share of responses with a template token such as <|start_header_id|> or
    <|im_start|>. Severity is **warning** above 2% and **error** above 5%, each on 3 of 5 rows. In healthy runs, the
    share reaches 1.6% on single steps. The onset is the step since which the share of every row has been above 2%.

    ## Thresholds
    - `rows`: number of rows over which the share is averaged.
    - `warn`: share of responses with template tokens, 0 to 1, above which the severity is warning.
    - `bad`: share of responses with template tokens, 0 to 1, above which the severity is error.

    ## Why it matters
    A header inside a response means that the boundary between prompt and response is wrong, generation does not stop,
    or the policy is broken. In all three cases, the reward does not belong to the answer.

    ## Example
    ```text
    chat_header_rate: 0.8x7
    ```
    Error at step 1: 80% of the responses contain chat template tokens.

    ```text
    chat_header_rate: 0.01x7
    ```
    No finding.

    ## Known false alarms
    Responses to tasks about chat templates contain template tokens. Responses of multi-turn agents contain several
    turns by design.

    ## Remedy
    Read ten responses that contain template tokens. If the header is at the start, slice at the padded width. If the
    header follows the end of a turn, pass the complete set of EOS tokens to generation.

    ## Sources
    BoBaCai/grpo-dual and its boundary block; fault `left-pad-extraction` of the engine.
    """
    rate = moving_mean(chat_header_rate, rows)
    return fires(
        rate > warn,
        "{rate:.0%} of the responses contain chat template tokens.",
        error=rate > bad,
        onset=began(rate > warn, chat_header_rate > warn, step),
        rate=rate,
    )
