from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column, is_any


@check("CFG025", severity="info", confidence="high")
def nothing_evaluated(
    evaluation: Column = any_of("settings.evaluation"),
) -> Fires:
    """Nothing is evaluated while the run trains, so that reward hacking cannot be seen.

    ## What it sees
    An evaluation that is declared off, or off by default: `eval_strategy="no"`, `test_freq=-1`, an interval of 0 or
    less.

    ## Why it matters
    The training reward rises when the task is learnt and when the reward is cheated. Held-out scores tell them apart.

    ## Known false alarms
    Evaluation in a process of its own, from the checkpoints.

    ## Remedy
    A held-out evaluation every few dozen steps.

    ## Sources
    Page of REW002; TRL `eval_strategy`; verl `trainer.test_freq`.
    """
    return fires(
        is_any(evaluation, "no", "No", "NO", 0, -1),
        "No evaluation runs during training.",
        hold=(1, 1),
    )
