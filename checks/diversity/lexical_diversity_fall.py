import math
from itertools import chain, pairwise
from typing import Any

from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, Trend, baseline, recent_mean, several, where

ENOUGH = 50
"""Number of word pairs below which the share of distinct pairs is not meaningful."""


@check("DIV003", severity="info")
def lexical_diversity_fall(
    samples: Column,
    reward_mean: Column = None,
    reward_trend: Trend = None,
    *,
    fallen_below_share: float = 0.5,
) -> Fires:
    """Lexical diversity falls: responses use fewer and fewer distinct word pairs.

    ## What it sees
    The check measures distinct-2: the share of distinct word pairs among all word pairs of a step's samples. The check
    fires if distinct-2, averaged over 5 steps with samples, falls below half of its value on the first step with
    samples. The average must be below half of its first value on 3 of 5 rows. Severity is info, or warning if the
    reward is known and has not improved. Steps with fewer than 50 word pairs are skipped. Steps whose amount of text
    differs from that of the first step by more than a factor of 1.5 are also skipped.

    ## Thresholds
    - `fallen_below_share`: ratio of distinct-2 to its first value below which diversity counts as fallen.

    ## Why it matters
    Lexical diversity falls before the number of distinct responses does: answers converge first on one phrasing, then
    on one text.

    ## Example
    ```text
    loss: 0x12
    samples.1-4: {"response": "add two and three to get five"} x10
    samples.5-12: {"response": "five five five five five five five"} x10
    ```
    Info at step 8: The share of distinct word pairs fell from 10% to 2%.

    ```text
    loss: 0x12
    samples.1-12: {"response": "add two and three to get five"} x10
    ```
    No finding.

    ## Known false alarms
    Diversity also falls if the policy learns a fixed format. Text without spaces between words (Chinese, some code) has
    few word pairs.

    ## Remedy
    Read the samples. If the phrasing is the required format, do nothing. Otherwise, sample at temperature 1 and use an
    entropy target.

    ## Sources
    Distinct-n: Li et al. 2016 (arXiv 1510.03055); Vendi score: 2210.02410. The limit of one half is a heuristic.
    """
    words, share = several(2, _pairs, samples)
    alike = (words >= ENOUGH) & (words <= 1.5 * baseline(words, 1)) & (words >= baseline(words, 1) / 1.5)
    distinct = where(alike, share, math.nan)
    first, now = baseline(distinct, 1), recent_mean(distinct)
    low = (now < fallen_below_share * first) & alike
    better = reward_trend.gained & ~reward_trend.fallen
    return fires(
        low,
        "The share of distinct word pairs fell from {first:.0%} to {now:.0%}.",
        warning=low & (reward_mean == reward_mean) & ~better,
        first=first,
        now=now,
    )


def _pairs(row: list[Any]) -> tuple[float, float]:
    """Return the number of pairs of adjacent words, and the share of distinct pairs."""
    texts = [sample.response.split() for sample in row]
    number = sum([len(words) - 1 for words in texts if words])
    return number, len(set(chain.from_iterable(map(pairwise, texts)))) / number if number else math.nan
