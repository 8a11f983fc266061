from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, Trend


@check("SHP001", severity="warning", explains=("DIV001",))
def logit_saturation(
    logit_gap: Column,
    top1_prob: Column,
    reward_trend: Trend = None,
    entropy_mean: Column = None,
    *,
    warning_gap: float = 5.0,
    prob: float = 0.95,
    error_gap: float = 7.0,
    error_probability: float = 0.99,
    critical_probability: float = 0.999,
    spent: float = 0.02,
) -> Fires:
    """The logits are saturated: the policy is nearly deterministic.

    ## What it sees
    The check uses the mean logit gap (largest minus second) and the mean top-1 probability over response positions, on
    3 of 5 rows. A gap above 5 and a probability above 0.95 are a **warning**. A gap above 7 and a probability above
    0.99 are an **error** and an outcome. Severity is **critical** if, in addition, the probability is above 0.999 and
    the entropy is below 0.02 nats. The check does not fire while the reward gains or is near its maximum. Healthy
    instruct models have a gap of 1.5 to 5 and a probability of 0.43 to 0.85.

    ## Thresholds
    - `warning_gap`: gap between the two largest logits that must be exceeded for a warning.
    - `prob`: probability of the most likely token that must be exceeded for a warning.
    - `error_gap`: gap between the two largest logits that must be exceeded for an error.
    - `error_probability`: probability of the most likely token that must be exceeded for an error.
    - `critical_probability`: probability of the most likely token that must be exceeded for severity critical.
    - `spent`: entropy, in nats per token, below which the severity may be critical.

    ## Why it matters
    At a probability of 0.999 per token and 200 tokens, 82% of the responses to a prompt are the same text. Identical
    responses have equal rewards, and the gradient of log p is nearly 0 for the most likely token.

    ## Example
    ```text
    logit_gap: 7x12
    top1_prob: 0.999x12
    ```
    Warning at step 1: The top-1 probability is 0.999 and the logit gap is 7: the policy is nearly deterministic.

    ```text
    logit_gap: 4x12
    top1_prob: 0.8x12
    ```
    No finding.

    ## Known false alarms
    Short structured answers are nearly certain if they are correct: a finished small task has a gap of 6.6 and a
    probability of 0.985. The largest logit alone is neither shift-invariant nor comparable across models (see SHP002).
    A measurement at a single position is not representative.

    ## Remedy
    First measure logit gap and top-1 probability over all response positions. Then proceed as for an entropy collapse:
    check the sign of the entropy term, sample at temperature 1, and use an adaptive bonus. If the policy is saturated,
    roll back to an earlier checkpoint.

    ## Sources
    BoBaCai/grpo-dual (a gap of 7 to 10 and a probability above 0.999 if broken, 3 to 5 and 0.60 to 0.85 if healthy);
    healthy runs of grpo-doctor's training engine; SmolLM2-135M (a gap of 1.5 to 1.8, and a probability of 0.43 to
    0.53).
    """
    better = (reward_trend.gained & ~reward_trend.fallen) | reward_trend.solved
    saturated = (logit_gap > error_gap) & (top1_prob > error_probability) & ~better
    return fires(
        (logit_gap > warning_gap) & (top1_prob > prob) & ~better,
        "The top-1 probability is {p:.4g} and the logit gap is {gap:.3g}: the policy is nearly deterministic.",
        error=saturated,
        critical=saturated & (top1_prob > critical_probability) & (entropy_mean < spent),
        suffered=saturated,
        p=top1_prob,
        gap=logit_gap,
    )
