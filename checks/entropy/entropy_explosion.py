import numpy as np

from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, Trend, baseline, began, fmax, lowest, where


@check(
    "ENT003",
    kind="outcome",
    severity="info",
    confidence="medium",
    explains=("LEN002", "LEN003", "REW009", "REW015", "DIV004", "KL001", "STL001", "ENT013"),
    invalidates=("checkpoints since step {onset}: the policy drifts towards random tokens",),
)
def entropy_explosion(
    entropy_mean: Column,
    step: Column,
    reward_mean: Column = None,
    reward_trend: Trend = None,
    response_length_mean: Column = None,
    cut_share: Column = None,
    invalid_rate: Column = None,
    *,
    grown_factor: float = 2.0,
    least_nats: float = 1.0,
    longer: float = 1.5,
    broken_rise: float = 0.2,
    random: float = 3.0,
    mostly: float = 0.5,
) -> Fires:
    """Entropy exploded: the policy spreads its probability over more and more tokens.

    ## What it sees
    The check uses the token-mean entropy, in nats.

    - Severity is **warning** if the entropy is above twice its value on the first row and above 1.0 nat, on 5 of 10
      rows.
    - Severity is **error** if the reward has fallen from its best level. Severity is also error if the reward is below
      its first level by more than half of the smallest detectable difference. Finally, severity is error if the reward
      is recorded and half of the responses are truncated or invalid.
    - An error becomes **critical** if responses are 50% longer than on the first row, or the share of truncated or
      invalid responses rose by 0.2.
    - Severity stays **info** if entropy is at most 3 nats, responses more than doubled in length, and truncation rose
      by 0.15 or the reward fell. Entropy rises by itself in longer contexts, so the cause of such a rise is the length
      explosion (LEN002). Above 3 nats, the policy generates noise and does not end its responses, so this exception
      does not apply.

    The reported onset is the last step at which entropy crossed the geometric mean of its lowest value and the limit.

    ## Thresholds
    - `grown_factor`: ratio of entropy, and of response length, to the first value, above which entropy or length has
      exploded.
    - `least_nats`: entropy, nats per token, below which the check is silent.
    - `longer`: ratio of response length to its first value above which an error becomes critical.
    - `broken_rise`: minimum rise in the share of truncated or invalid responses, 0 to 1, at which an error becomes
      critical.
    - `random`: entropy, nats per token, above which the text counts as noise.
    - `mostly`: minimum share of truncated or invalid responses, 0 to 1, for severity error.

    ## Why it matters
    Above about 1 nat per token, text becomes incoherent: answers run to the length limit and become invalid. If every
    answer is invalid, all rewards are equal, and no gradient remains for recovery.

    ## Example
    ```text
    entropy_mean: 0.8x5 3.1x10
    ```
    Warning at step 6: Entropy rose from 0.8 to 3.1 nats.

    ```text
    entropy_mean: 0.8x5 1.2x10
    ```
    No finding.

    ## Known false alarms
    The entropy of a reasoning run may rise from 0.3 to 0.8 nats while the run learns, so the limit is 1.0 nat. If the
    reward improves, the severity is at most warning. The entropy of a base model may be above 1.0 nat at the start, so
    it must also double. Entropy measured at a sampling temperature above 1 is larger than at temperature 1.

    ## Remedy
    Set the entropy coefficient to 0, fix the mismatch between rollout engine and trainer, and halve the learning rate.
    Do not rely on changed settings alone: zero-variance groups give no gradient that could restore the policy. Roll
    back to the last checkpoint at which entropy was below 1.5 times its first value, and reset the optimizer state.

    ## Sources
    rllm#116 ("fine as long as it is < 1"; 2.0 with falling scores), verl PR #781, verl#2738; public runs of
    ShibukiZero/assignment5-alignment (0.9 → 7
    nats at 16 updates per rollout); fault `entropy-coefficient-huge` of the engine, which ends at the entropy of
    random tokens.
    """
    entropy = where(entropy_mean > 0, entropy_mean, np.nan)
    first = baseline(entropy, 1)
    limit = fmax(grown_factor * first, least_nats)
    high = entropy_mean > limit
    sinks = reward_trend.first - reward_trend.now > reward_trend.shown / 2
    poor = high & (
        reward_trend.fallen | sinks | ((reward_mean == reward_mean) & (fmax(cut_share, invalid_rate) >= mostly))
    )
    times_longer = response_length_mean / baseline(response_length_mean, 1)
    cut = cut_share - baseline(cut_share, 1)
    of_itself = ~((times_longer > grown_factor) & ((cut >= 0.15) | reward_trend.fallen) & (entropy_mean <= random))
    broken = invalid_rate - baseline(invalid_rate, 1) >= broken_rise
    return fires(
        high,
        "Entropy rose from {first:.3g} to {entropy:.3g} nats.",
        hold=(5, 10),
        warning=high & of_itself,
        error=poor & of_itself,
        critical=poor & of_itself & ((times_longer > longer) | (cut >= broken_rise) | broken),
        onset=began(high, entropy_mean > (lowest(entropy) * limit) ** 0.5, step),
        entropy=entropy_mean,
        first=first,
    )
