from grpo_doctor import Fires, check, fires
from grpo_doctor.diagnosis.wording import counted
from grpo_doctor.series import Column, seen, total, words


@check(
    "REC002",
    kind="remark",
    severity="info",
    confidence="high",
    run_types=("rl", "supervised", "preference", "evaluation"),
)
def step_counter_restarts(step: Column, events: Column) -> Fires:
    """The step counter goes back: the log contains a resumed run or several runs.

    ## What it sees
    The check reports every row whose step is lower than that of the previous row.

    ## Why it matters
    After a restart, trends and baselines extend across two parts of the log. The parts before and after the restart
    may be two runs with different settings. The parts may also be one run that was resumed with a new optimizer. The
    onset of a finding after the restart refers to the restarted counter.

    ## Example
    ```log
    {"step": 1, "reward": 0.5, "kl": 0.01}
    {"step": 2, "reward": 0.5, "kl": 0.02}
    {"step": 3, "reward": 0.6, "kl": 0.02}
    {"step": 2, "reward": 0.5, "kl": 0.03}
    {"step": 3, "reward": 0.6, "kl": 0.03}
    ```
    Info: The log contains 1 restart of the step counter (most recently to step 2). Analyse the parts separately.

    ```log
    {"step": 1, "reward": 0.5, "kl": 0.01}
    {"step": 2, "reward": 0.5, "kl": 0.02}
    {"step": 3, "reward": 0.6, "kl": 0.02}
    ```
    No finding.

    ## Known false alarms
    The check cannot distinguish a counter that restarts with every epoch from a resumed run. The finding is information
    only.

    ## Remedy
    If the parts are different runs, analyse them separately: cut the log at the line that the finding reports.

    ## Sources
    anjaustin/autoresearch grpo_log.jsonl (three restarts), rohunagrawal/reward-hacking-entropy Hard (one).
    """
    return fires(
        seen(events, "restart") > 0,
        "The log contains {restarts} of the step counter (most recently to step {step}). Analyse the parts separately.",
        hold=(1, 1),
        restarts=words(lambda n: counted(int(n), "restart"), total(seen(events, "restart"))),
        step=step,
    )
