from grpo_doctor import Fires, check, fires
from grpo_doctor.diagnosis.wording import number
from grpo_doctor.series import Column, Trend, words


@check(
    "REW015",
    kind="outcome",
    severity="warning",
    confidence="medium",
    invalidates=("checkpoints saved since step {onset}",),
    about=("eval_score",),
)
def held_out_score_falls(
    eval_score: Column,
    eval_trend: Trend,
) -> Fires:
    """The held-out score has fallen from its best level.

    ## What it sees
    The check uses the trajectory of the held-out score. The check fires if the last window is below the best window by
    more than noise explains. With few evaluations, the check fires if an exact rank test shows that the scores decrease
    after the highest score. Severity is **warning** if the score has lost 15% of its best level and a quarter of the
    range that it has covered. Severity is **error** if the score has lost 30% of its best level and half of its range.
    Severity is also **warning** if the level of the last quarter is below the first level by more than the smallest
    detectable gain. Even a drop of less than 15% means that training lowered the score that it should raise.

    ## Why it matters
    The goal of a run is a high score on prompts that were not used for training. If the held-out score falls, keep the
    checkpoint before the fall, regardless of the training reward.

    ## Example
    ```text
    eval_score: 0.1->0.6x6 0.6x29 0.1x30
    ```
    Error at step 36: The held-out score fell from 0.6 to 0.1 at step 36.

    ```text
    eval_score: 0.1->0.6x6 0.6x59
    ```
    No finding.

    ## Known false alarms
    A held-out set may have few prompts and be scored only a few times.

    ## Remedy
    Roll back to the checkpoint with the best held-out score. If the reward rose at the same time, check what the reward
    function rewards (REW002). If the reward also fell, the two falls probably have the same cause (REW009).

    ## Sources
    arXiv 2210.10760 (the gold reward falls while its proxy rises). Bihan/dstack-configs: PPO continues for 300 steps at
    a training reward of 0.95, while the score over 34 evaluations falls from 0.897 to 0.874.
    """
    below = ~eval_trend.gained & ~eval_trend.fallen & (eval_trend.first - eval_trend.now > eval_trend.shown)
    return fires(
        eval_trend.fallen | below,
        "The held-out score {fell}.",
        error=eval_trend.lost,
        hold=(1, 1),
        clear=1,
        onset=eval_trend.since,
        fell=words(_fell, eval_trend.fallen, eval_trend.best, eval_trend.first, eval_trend.now, eval_trend.since),
        best=eval_trend.best,
        first=eval_trend.first,
        now=eval_trend.now,
        shown=eval_trend.shown,
        since=eval_trend.since,
    )


def _fell(fallen: bool, best: float, first: float, now: float, since: float) -> str:
    if fallen:
        return f"fell from {number(best)} to {number(now)} at step {since:.0f}"
    return f"is below its starting level: {number(first)} at the start, {number(now)} now"
