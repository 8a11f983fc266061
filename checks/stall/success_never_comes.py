import math

from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.diagnosis.wording import number
from grpo_doctor.series import Column, Trend, baseline, best, lowest, total, words


@check(
    "STL008",
    kind="outcome",
    severity="warning",
    confidence="medium",
    explains=("STL001", "DAT001", "GRD003"),
    about=("success_rate",),
)
def success_never_comes(
    known: Column = any_of("success_rate", "eval_score"),
    step: Column = None,
    success_rate: Column = None,
    success_trend: Trend = None,
    eval_gained: Column = None,
    reward_mean: Column = None,
    reward_trend: Trend = None,
    eval_score: Column = None,
    *,
    patience: int = 40,
    short: int = 8,
    least_values: int = 12,
    evaluations: int = 3,
    floor: float = 0.05,
) -> Fires:
    """The success rate stays at or near 0 throughout the run.

    ## What it sees
    The check fires if all values of the success rate are 0. At least 40 values are required, or 8 if there are also 8
    rewards and the reward has not improved. Starting at the 12th value, the check also fires for a success rate that is
    0 on 85% of its rows. If the success rate is almost always 0, three or more held-out scores of at most 0.05 are also
    required, so that two measurements agree. If only the success rate or only the held-out score is recorded, twelve
    values are sufficient. No value may be above 0.05, and the metric must not have improved. For a success rate, at
    least one value must be above 0. If the reward is also always at its minimum, STL001 reports the run.

    ## Thresholds
    - `patience`: number of values, all 0, at or above which the check fires, as in REW011.
    - `short`: number of values, all 0, that are sufficient if the reward has not improved (the number that a trend
      needs).
    - `least_values`: number of values at or above which the check tests whether almost all values are 0, as in STL001.
    - `evaluations`: minimum number of held-out scores (the number of rewards that STL001 requires).
    - `floor`: held-out score or success rate, 0 to 1, up to which the metric counts as near 0, as in REW002.

    ## Why it matters
    A policy gradient reinforces what was sampled and rewarded. A run without a single success learns only from bonuses
    and penalties, and waiting does not help.

    ## Example
    ```text
    success_rate: 0x40
    ```
    Warning at step 1: No response has been correct: the success rate is 0 on all 40 rows.

    ```text
    success_rate: 0x20 0.3x20
    ```
    No finding.

    ## Known false alarms
    In some tasks, success is rare in small batches and comes late. The finding clears with the first success, or with
    the first held-out score above the minimum.

    ## Remedy
    First check that a correct answer counts as correct. Then use easier prompts, a supervised start, or partial credit.

    ## Sources
    Harikishanth/CloudSRE: none of 50 episodes is resolved, while the reward is between -6.59 and -5.93.
    xiaoman654/WarmGiGPO-WebShop: 32 batches have two wins, and the held-out scores are 0 to 0.016. With a warm start,
    the same number of batches has four wins, and the held-out score rises to 0.33.
    """
    n, never = total(success_rate == success_rate), best(success_rate) <= 0
    evaluated = total(eval_score == eval_score)
    nowhere = (evaluated >= evaluations) & (best(eval_score) <= floor) & (lowest(eval_score) >= 0)
    low = (best(success_rate) <= floor) & (lowest(success_rate) >= 0) & ~never & ~success_trend.gained & (evaluated < 1)
    almost_none = (n >= least_values) & ((success_trend.unpaid > 0) & nowhere | low)
    held_out = nowhere & (n < 1) & (evaluated >= least_values) & ~eval_gained
    flat = (total(reward_mean == reward_mean) >= short) & ~reward_trend.gained
    return fires(
        (never & ((n >= patience) | (flat & (n >= short))) | almost_none | held_out) & ~(reward_trend.unpaid > 0),
        "{what}.",
        hold=(1, 1),
        clear=1,
        onset=baseline(step, 1),
        what=words(_what, never, n, best(success_rate), best(eval_score)),
        values=n,
        highest=best(success_rate),
    )


def _what(never: bool, values: float, highest: float, score: float) -> str:
    if values < 1:
        return (
            f"{'Almost no' if score > 0 else 'No'} response is correct: the best held-out score is {number(score, 2)}"
        )
    if never:
        return f"No response has been correct: the success rate is 0 on all {values:.0f} rows"
    rare = f"Almost no response is correct: the highest success rate of {values:.0f} rows is {number(highest, 2)}"
    return rare if math.isnan(score) else f"{rare}, and the best held-out score is {number(score, 2)}"
