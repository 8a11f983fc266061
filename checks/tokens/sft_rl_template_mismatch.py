from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, baseline, moving_mean


@check(
    "TOK001",
    kind="defect",
    severity="warning",
    explains=("DIV004",),
    invalidates=("the supervised stage: its prompts differ from the RL prompts",),
)
def sft_rl_template_mismatch(
    first_token_valid_rate: Column,
    temperature: Column = None,
    rollout_mismatch_kl: Column = None,
    *,
    low: float = 0.9,
    healthy: float = 0.95,
) -> Fires:
    """The prompt template of RL differs from that of the supervised stage.

    ## What it sees
    The check uses the share of responses whose first token can start a valid response. The check fires if this share is
    below 0.9 over the first 5 rows, and below 0.95 over the last 5 rows, on 3 of 5 rows. The check excludes rows with a
    sampling temperature above 1.1, and rows on which rollout engine and trainer disagree (KL above 0.001 nats per
    token). The KL is estimated as the mean of exp(x) - 1 - x over tokens (k3), where x is the log-probability
    difference. On the excluded rows, the cause is the generator, not the template. Records only suggest that the
    templates differ; the probe proves the difference.

    ## Thresholds
    - `low`: share of responses with a valid first token at the start, 0 to 1, below which the check fires.
    - `healthy`: share of responses with a valid first token over the last rows, 0 to 1, below which the check fires.

    ## Why it matters
    If the templates differ, part of the supervised stage is wasted. RL spends its first steps on teaching the format
    again, with large gradients and a policy that moves ten times as far per update.

    ## Example
    ```text
    first_token_valid_rate: 0.5x9
    rollout_mismatch_kl: 0.001x9
    ```
    Warning at step 5: Only 50% of the first responses begin with a valid first token. Compare the token ids of
    supervised and RL prompts.

    ```text
    first_token_valid_rate: 0.98x9
    rollout_mismatch_kl: 0.001x9
    ```
    No finding.

    ## Known false alarms
    A base model without a supervised stage has not learned a format.

    ## Remedy
    Render both stages with one function and compare the ids (probe TOK001).

    ## Sources
    BoBaCai/grpo-dual; fault `template-mismatch` of the engine.
    """
    first = baseline(first_token_valid_rate, 5)
    now = moving_mean(first_token_valid_rate, 5)
    generator = (temperature > 1.1) | (abs(rollout_mismatch_kl) > 1e-3)
    return fires(
        (first < low) & (now < healthy) & ~generator,
        "Only {first:.0%} of the first responses begin with a valid first token. Compare the token ids of supervised "
        "and RL prompts.",
        first=first,
        now=now,
    )
