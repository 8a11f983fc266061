from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column


@check("DAT002", severity="warning", confidence="medium")
def prompt_repeat_overfit(
    reward_gained: Column,
    epoch: Column,
    eval_gained: Column,
    eval_solved: Column,
    eval_first: Column,
    eval_now: Column,
    eval_shown: Column,
    *,
    passes: float = 10,
) -> Fires:
    """The policy memorises its training prompts.

    ## What it sees
    After 10 passes over the prompts: the reward has gained since the start, while the held-out score has not, beyond
    its noise (`series.trajectory`, from the 6th score on). A held-out score of at least 0.9 of 1 has nothing left
    to gain, and is not judged.

    ## Thresholds
    - `passes`: epochs over the prompts after which it is judged.

    ## Why it matters
    Reward on prompts that were seen ten times measures memory. The checkpoint that is best by reward is then not the
    best.

    ## Known false alarms
    Small tasks that have only these prompts, where learning them is the aim.

    ## Remedy
    More prompts or fewer passes; stop by the held-out score.

    ## Sources
    A convention, not a measurement: ten passes over the prompts.
    """
    flat = (eval_shown == eval_shown) & ~eval_gained & ~eval_solved
    return fires(
        (epoch >= passes) & reward_gained & flat,
        "After {epoch:.0f} passes over the prompts, the reward has risen, but the held-out score went from "
        "{first:.3g} to {level:.3g}.",
        epoch=epoch,
        first=eval_first,
        level=eval_now,
    )
