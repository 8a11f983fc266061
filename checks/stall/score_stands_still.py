import math
from typing import Any

from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.diagnosis.wording import number
from grpo_doctor.series import Column, best, fold, latest, moving_sum, row, total, where, words


def equal(state: tuple[float, float, int], score: Any) -> tuple[tuple[float, float, int], float]:
    """Return the number of consecutive scores equal to the current one, or NaN if rounding may explain their
    equality."""
    last, moved, times = state
    if score == score:
        score = float(score)
        moved, times = (moved, times + 1) if score == last else (abs(score - last), 1)
        last = score
    exact = last != round(last, DIGITS)
    return (last, moved, times), float(times) if moved >= STEP or exact else math.nan


STEP, DIGITS = 0.02, 3
"""A converging running mean becomes constant at a number with at most DIGITS digits. The last change in a converging
running mean is below STEP, one correct answer in fifty."""


@check(
    "STL007",
    vital=True,
    kind="outcome",
    severity="warning",
    confidence="medium",
    explains=("STL001", "REC004"),
    invalidates=("checkpoints saved since step {onset}",),
    about=("success_rate", "eval_score"),
)
def score_stands_still(
    step: Column,
    score: Column = any_of("success_rate", "eval_score"),
    success_rate: Column = None,
    loss: Column = None,
    success_gained: Column = None,
    success_solved: Column = None,
    eval_gained: Column = None,
    eval_solved: Column = None,
    *,
    measured: int = 8,
    share: float = 0.5,
    lost_share: float = 0.3,
) -> Fires:
    """The success rate or the held-out score is constant: the policy gives the same answers.

    ## What it sees
    The check fires if the last eight or more values of the success rate are the same number, and make up at least half
    of all values. If no success rate is recorded, the check uses the held-out score. The number must be above 0 and
    below the score of a solved task. Rounding must not explain the equal values: the number must have more than three
    digits, or the last change must be 0.02 or more. Severity is **warning**, and **error** if the number is 30% below
    the highest value. If the score has improved, the check fires only after eight rows with a loss of exactly 0,
    because no update then changes the policy. The onset is the first of the equal values.

    ## Thresholds
    - `measured`: minimum number of consecutive equal values.
    - `share`: minimum share of equal values among all values, 0 to 1.
    - `lost_share`: distance below the highest value, as a share of that value, 0 to 1, at or above which the severity
      is error.

    ## Why it matters
    The score of a changing policy varies. If the number is the same to the last digit at every evaluation, the same
    prompts get the same answers. The policy has collapsed to one answer, or is not trained.

    ## Example
    ```text
    eval_score: 0.1948x8
    ```
    Warning at step 1: The held-out score was exactly 0.195 in its last 8 values, so the policy gives the same answers.

    ```text
    eval_score: 0.1948 0.2013 0.1987 0.2105 0.2051 0.2112 0.2098 0.2201
    ```
    No finding.

    ## Known false alarms
    On a small evaluation set with greedy decoding, a policy that has converged below its maximum may have a constant
    score. Other reward checks judge values of 0 and values of a solved task.

    ## Remedy
    Read the responses. Roll back to a checkpoint before the onset. Then use an entropy bonus, smaller updates, or a
    reward function that does not reward the repeated answer.

    ## Sources
    esmaeil-abedi-dev/verifier-as-reward: with REINFORCE, the accuracy falls from 0.99 to 0.6 and stays there for 17
    evaluations while every case is refused. From a different start, the accuracy rises by 0.55 in the same way.
    """
    rate = total(success_rate == success_rate) > 0
    gained, solved = where(rate, success_gained, eval_gained) > 0, where(rate, success_solved, eval_solved) > 0
    times, n = fold(equal, lambda: (math.nan, 0.0, 0), score), row(score)
    at_rest = (times >= measured) & (times >= share * n) & (score > 0)
    highest = best(score)
    idle = moving_sum(loss == 0, measured) >= measured
    return fires(
        at_rest & ~solved & (~gained | idle),
        "The {what} {fell} in its last {times:.0f} values, so the policy gives the same answers.",
        error=at_rest & ~gained & (score <= (1 - lost_share) * highest),
        hold=(1, 1),
        clear=1,
        onset=where(at_rest, latest(where(times == 1, step, math.nan)), math.nan),
        what=where(rate, "success rate", "held-out score"),
        fell=words(_fell, score, highest),
        now=score,
        times=times,
        highest=highest,
    )


def _fell(now: float, highest: float) -> str:
    return (
        f"fell from {number(highest)} to {number(now)} and was constant"
        if highest > now
        else f"was exactly {number(now)}"
    )
