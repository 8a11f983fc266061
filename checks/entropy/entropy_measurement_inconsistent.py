import math

import numpy as np

from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.diagnosis.wording import number
from grpo_doctor.series import Column, isnan, where, words


@check("ENT009", kind="defect", severity="warning")
def entropy_measurement_inconsistent(
    entropy_mean: Column,
    top1_prob: Column = None,
    vocabulary: Column = any_of("settings.vocab_size", optional=True),
    *,
    slack: float = 0.1,
    sharp: float = 0.99,
    below_zero: float = -0.01,
) -> Fires:
    """The logged entropy is negative or inconsistent with the logged top-1 probability.

    ## What it sees
    The entropy of a distribution over tokens is at least 0. The check fires if the entropy is below -0.01 on 5 of 10
    rows. For a mean top-1 probability p and V tokens, the mean entropy is between -ln p and h(p) + (1 - p) ln(V - 1).
    Here, h(p) is the entropy of a coin that shows heads with probability p. By Jensen's inequality, both bounds also
    apply to means over tokens. The check also fires if the entropy is more than 10% below the lower bound or above the
    upper bound on 5 of 10 rows. V is the declared `vocab_size`, or 300,000 if no size is declared. Rows with p above
    0.99 are skipped, because rounding dominates their bounds.

    ## Thresholds
    - `slack`: distance of entropy outside its bounds, as a share of the bound, above which the check fires.
    - `below_zero`: entropy, nats, below which a value is not a rounding error of 0.
    - `sharp`: probability of the most likely token above which rows are skipped.

    ## Why it matters
    Every check of entropy collapse depends on the logged entropy. An entropy that is averaged over padding, measured in
    bits, or computed after top-k does not describe the policy.

    ## Example
    ```text
    settings.vocab_size: 96
    top1_prob: 0.95x10
    entropy_mean: 1x10
    ```
    Warning at step 1: An entropy of 1 nats is impossible at a top-1 probability of 0.95: it must be between 0.0513
    and 0.426.

    ```text
    settings.vocab_size: 96
    top1_prob: 0.95x10
    entropy_mean: 0.3x10
    ```
    No finding.

    ```text
    entropy_mean: -16.7x10
    ```
    Warning at step 1: An entropy of -16.7 nats is impossible: the entropy of a distribution over tokens is at least 0.

    ## Known false alarms
    Some trainers log the top-1 probability of the first token but the entropy over the whole response. If either metric
    is rounded to few digits, the check may also fire.

    ## Remedy
    Compute entropy and probabilities from the same raw logits, over the same response tokens, at temperature 1, and
    report entropy in nats. A negative value is usually the mean log-probability of sampled tokens, or a sum that has
    the sign of a loss term.

    ## Sources
    Algebra (Jensen); verl's and TRL's definition of entropy: full vocabulary, mean over response tokens.
    """
    p, tokens = top1_prob, where(isnan(vocabulary), 300_000.0, vocabulary)
    low = -np.log(p)
    high = low * p - (1 - p) * np.log(1 - p) + (1 - p) * np.log(tokens - 1)
    negative = entropy_mean < below_zero
    outside = (entropy_mean < (1 - slack) * low) | (entropy_mean > (1 + slack) * high)
    return fires(
        negative | (outside & (p <= sharp) & (entropy_mean >= 0)),
        "An entropy of {entropy:.3g} nats is impossible{bounds}.",
        hold=(5, 10),
        entropy=entropy_mean,
        bounds=words(_bounds, where(negative, math.nan, p), low, high),
    )


def _bounds(p: float, low: float, high: float) -> str:
    if p != p:
        return ": the entropy of a distribution over tokens is at least 0"
    return f" at a top-1 probability of {number(p)}: it must be between {number(low)} and {number(high)}"
