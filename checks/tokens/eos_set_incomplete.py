from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column


@check("TOK004", severity="warning", confidence="high", explains=("LEN003",))
def eos_set_incomplete(
    cut_share: Column,
    response_length_mean: Column,
    response_length_max: Column,
    *,
    most: float = 0.25,
    slack: float = 0.9,
) -> Fires:
    """The trainer or the rollout engine does not treat the end-of-turn token as EOS.

    ## What it sees
    The check fires if more than a quarter of the responses count as truncated on 3 of 5 rows. In addition, the mean
    length must be below nine tenths of the truncated share times the longest length. If one limit truncates responses,
    all truncated responses have the longest length, so the mean cannot be below the share times the longest length. The
    responses therefore ended with a token that the trainer does not check.

    ## Thresholds
    - `most`: share of responses that count as truncated, 0 to 1, above which the check fires.
    - `slack`: actual mean length, as a share of the mean that the truncated responses imply, below which the check
      fires.

    ## Why it matters
    A trainer that knows only one EOS id treats every other end as truncation, and masks or penalises the response. A
    truncation rate of 1 suggests raising the limit, although no response reaches the current limit. Conversely, if the
    engine does not stop at the template's terminator, the response continues after its end. If the response continues,
    the reward function scores an invented dialogue.

    ## Example
    ```text
    truncated_rate: 0.97x3
    response_length_mean: 311x3
    response_length_max: 840x3
    ```
    Warning at step 1: 97% of the responses count as truncated, but the mean length is 311 tokens and the longest
    response has 840. Responses end with a token that the trainer does not treat as EOS.

    ```text
    truncated_rate: 0.02x3
    response_length_mean: 311x3
    response_length_max: 840x3
    ```
    No finding.

    ## Known false alarms
    Limits may differ between responses: one limit for prompt and response together, or one limit per turn. The probe
    also fires for samplers with `min_new_tokens` above 0, which suppress the terminator only at the start.

    ## Remedy
    Add every terminator to the EOS tokens of generation. Detect the end of a response by the engine's finish reason.

    ## Sources
    huggingface/trl#7039 (a clipped ratio of 0.97 although answers end); Llama 3 lists `[128001, 128009]`.
    """
    return fires(
        (cut_share > most) & (response_length_mean < slack * cut_share * response_length_max),
        "{cut:.0%} of the responses count as truncated, but the mean length is {mean:.4g} tokens and the longest "
        "response has {longest:.4g}. Responses end with a token that the trainer does not treat as EOS.",
        cut=cut_share,
        mean=response_length_mean,
        longest=response_length_max,
    )
