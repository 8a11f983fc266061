import math
from collections import Counter
from typing import Any

from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, baseline, fold, latest, maximum, moving_mean

WINDOW = 200
"""Number of valid responses over which patterns are counted."""


@check("DIV002", severity="warning")
def pattern_concentration(
    reward_mean: Column,
    top_pattern_share: Column = None,
    samples: Column = None,
    *,
    rows: int = 10,
    half: float = 0.5,
    nearly_all: float = 0.8,
    gain: float = 0.1,
) -> Fires:
    """A single response makes up most of the valid output, whatever the prompt.

    ## What it sees
    The check uses the share of the most frequent valid response over 10 steps, as recorded or counted over the last 200
    valid samples. Severity is warning if the share is above 0.5, and error if it is above 0.8. The check fires only
    while the reward has not clearly risen since the start.

    ## Thresholds
    - `rows`: number of rows over which the share of the most frequent response is averaged.
    - `half`: share of the most frequent valid response, 0 to 1, above which the severity is warning.
    - `nearly_all`: share of the most frequent valid response, 0 to 1, above which the severity is error.
    - `gain`: rise in the reward, as a share of its first value, above which the check is silent.

    ## Why it matters
    A policy that gives the same answer to every prompt ignores the prompt. With equal responses, all rewards in a group
    are equal, so there is no signal.

    ## Example
    ```text
    reward_mean: 0.3x30
    top_pattern_share: 0.51x30
    ```
    Warning at step 10: A single response makes up 51% of the valid output, and the reward stays at 0.3.

    ```text
    reward_mean: 0.3x30
    top_pattern_share: 0.2x30
    ```
    No finding.

    ## Known false alarms
    In a solved task, one best answer may dominate; the check is silent if the reward has clearly risen. A share over
    the whole run hides changes during the run. For example, the run of beita6969/colab-grpo has a top share of 34% with
    20 distinct responses among 326, so its responses are not concentrated.

    ## Remedy
    Compare the rewards of the distinct responses. If the most frequent response scores no higher than others, raise the
    temperature to 1 and check whether rewards within groups differ again.

    ## Sources
    beita6969/colab-grpo; healthy runs of grpo-doctor's training engine (`grpo-doctor run`), which end with few
    patterns.
    """
    share = moving_mean(fold(_top_share, tuple, samples, top_pattern_share), rows)
    start, now = baseline(reward_mean, 5), moving_mean(reward_mean, rows)
    stuck = now <= start + gain * maximum(abs(start), 0.5)
    return fires(
        (latest(share) > half) & stuck,
        "A single response makes up {share:.0%} of the valid output, and the reward stays at {reward:.3g}.",
        error=(latest(share) > nearly_all) & stuck,
        share=share,
        reward=now,
    )


def _top_share(last: tuple[str, ...], samples: Any, recorded: float) -> tuple[tuple[str, ...], float]:
    """Return the share of the most frequent response among the last valid responses: recorded, or else counted over at
    least 30 responses."""
    if recorded == recorded:
        return last, recorded
    last = (*last, *(s.response for s in samples or () if s.valid))[-WINDOW:]
    return last, Counter(last).most_common(1)[0][1] / len(last) if len(last) >= 30 else math.nan
