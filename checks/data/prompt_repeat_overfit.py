from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, Trend


@check("DAT002", severity="warning", confidence="medium", about=("eval_score",))
def prompt_repeat_overfit(
    reward_gained: Column,
    epoch: Column,
    eval_trend: Trend,
    *,
    passes: float = 10,
) -> Fires:
    """The policy memorises its training prompts.

    ## What it sees
    The check fires after 10 passes over the prompts if the reward has improved, but the held-out score (at least 6
    evaluations) has not. A held-out score of at least 0.9 (of 1) has little room to rise, so it is not judged.

    ## Thresholds
    - `passes`: number of passes over the prompts after which the run is judged.

    ## Why it matters
    After ten passes, the reward on the training prompts measures memorisation. After memorisation, the checkpoint with
    the best training reward is not the best checkpoint.

    ## Example
    ```text
    epoch: 0->14.5x30
    reward_mean: 0.2->0.78x30
    eval_score: 0.3x30
    ```
    Warning at step 21: After 14 passes over the prompts, the reward has risen, but the held-out score has not risen
    beyond noise (0.3 at the start, 0.3 now).

    ```text
    epoch: 0->14.5x30
    reward_mean: 0.2->0.78x30
    eval_score: 0.2->0.7x30
    ```
    No finding.

    ## Known false alarms
    If a small task has no other prompts, memorising the training prompts is the goal.

    ## Remedy
    Use more prompts or fewer passes, and stop training when the held-out score stops rising.

    ## Sources
    The limit of ten passes over the prompts is a convention, not a measurement.
    """
    flat = (eval_trend.shown == eval_trend.shown) & ~eval_trend.gained & ~eval_trend.solved
    return fires(
        (epoch >= passes) & reward_gained & flat,
        "After {epoch:.0f} passes over the prompts, the reward has risen, but the held-out score has not risen beyond "
        "noise ({first:.3g} at the start, {level:.3g} now).",
        epoch=epoch,
        first=eval_trend.first,
        level=eval_trend.now,
    )
