from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, began, recent_mean


@check("RAT010", severity="warning", confidence="high")
def importance_weights_mostly_clipped(
    weight_clip_fraction: Column,
    step: Column,
    *,
    many: float = 0.3,
    most: float = 0.7,
) -> Fires:
    """Truncating or masking importance weights discards much of the batch.

    ## What it sees
    Over the last 5 rows, the check averages the share of tokens (or responses) whose importance weight (trainer to
    rollout engine) was truncated or masked. Severity is **warning** above 30% and **error** above 70%.

    ## Thresholds
    - `many`: share of tokens, 0 to 1, above which the severity is warning, because truncation is intended for rare
      outliers.
    - `most`: share of tokens, 0 to 1, above which the severity is error, because the policy trains on a small part of
      the batch.

    ## Why it matters
    Masked tokens do not contribute to the loss, and truncated tokens get the wrong weight. The remaining tokens are
    those whose log-probabilities have barely changed.

    ## Example
    ```text
    weight_clip_fraction: 0.01x10 0.4x10
    ```
    Warning at step 11: The importance weights of 40% of the tokens are truncated or masked.

    ```text
    weight_clip_fraction: 0.01x20
    ```
    No finding.

    ## Known false alarms
    If whole responses are rejected based on the product of their token ratios, long responses are almost always
    rejected.

    ## Remedy
    First fix the mismatch: use the same precision on both sides, and fresh weights in the engine. Only then widen the
    bounds.

    ## Sources
    verl 0.9.1 `rollout_corr/rollout_rs_masked_fraction`; slime `tis_clipfrac`; open-instruct `val/rho_clipfrac`;
    prime-rl `is_masked`; AReaL `rs_filtered_fraction`.
    """
    now = recent_mean(weight_clip_fraction)
    over = now > many
    return fires(
        over,
        "The importance weights of {now:.0%} of the tokens are truncated or masked.",
        error=now > most,
        onset=began(over, weight_clip_fraction > many, step),
        now=now,
    )
