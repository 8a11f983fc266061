import math
from typing import Any

from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, fold


def same(state: tuple[float, int], score: Any) -> tuple[tuple[float, int], float]:
    """Return the number of held-out scores identical to the first one, or 0 after a different score."""
    first, times = state
    if score == score:
        first = float(score) if first != first else first
        times = times + 1 if times >= 0 and score == first else -1
    return (first, times), float(max(times, 0))


@check("REC004", vital=True, severity="warning", confidence="medium")
def evaluation_does_not_move(eval_score: Column, reward_gained: Column, *, equal_scores: int = 4) -> Fires:
    """The held-out score is identical at every evaluation while the reward rises.

    ## What it sees
    The check fires if four or more held-out scores are identical to the last digit while the training reward has
    improved. Scores of 0 and 1 do not count.

    ## Thresholds
    - `equal_scores`: minimum number of equal held-out scores.

    ## Why it matters
    Changed weights give different answers and a different score. If the score is the same to the last digit, the
    evaluation uses constant weights. Examples are the base model without the adapter, and an engine that was not
    synchronised.

    ## Example
    ```text
    eval_score: 0.412 ?x8 0.412 ?x8 0.412 ?x8 0.412 ?x2
    reward_mean: 0.1->0.68x30
    ```
    Warning at step 28: The held-out score is identical in all 4 evaluations while the reward rises.

    ```text
    eval_score: 0.412 ?x8 0.43 ?x8 0.47 ?x8 0.5 ?x2
    reward_mean: 0.1->0.68x30
    ```
    No finding.

    ## Known false alarms
    With few evaluation prompts, equal scores occur by chance. Scores of exactly 0 or 1 are excluded, because they may
    be the minimum or maximum.

    ## Remedy
    Compare the log-probabilities of one prompt under the evaluated and the trained weights.

    ## Sources
    PrimeIntellect-ai/prime-rl#1456 (the merge was skipped when saving, so the evaluation was equal before and after
    training).
    """
    equal = fold(same, lambda: (math.nan, 0), eval_score)
    return fires(
        (equal >= equal_scores) & reward_gained & ~((eval_score == 0) | (eval_score == 1)),
        "The held-out score is identical in all {times:.0f} evaluations while the reward rises.",
        hold=(1, 1),
        times=equal,
    )
