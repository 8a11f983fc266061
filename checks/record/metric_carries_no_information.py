from functools import reduce

from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column, best, isnan, lowest, maximum, total, where, words

WATCHED = ("eos_suppressed_rate", "advantage_mean", "judge_failure_rate", "top1_prob")


@check("REC001", kind="remark", severity="info", run_types=("rl", "supervised", "preference"))
def metric_carries_no_information(
    any_of_them: Column = any_of(*WATCHED),
    eos_suppressed_rate: Column = None,
    advantage_mean: Column = None,
    judge_failure_rate: Column = None,
    top1_prob: Column = None,
    *,
    least_rows: int = 10,
) -> Fires:
    """A metric is constant, so it provides no information.

    ## What it sees
    The check fires if a metric has at least ten values and all of them are equal. The check covers EOS suppression,
    mean advantage, judge failures and top-1 probability. KL003 and RAT002 report a constant KL or clip fraction.

    ## Thresholds
    - `least_rows`: minimum number of equal values.

    ## Why it matters
    A metric that cannot change provides no evidence. An EOS suppressor that counts its own interventions is always at
    100%. A mean advantage is 0 by construction. A clip fraction is 0 if each rollout is used once.

    ## Example
    ```text
    advantage_mean: 0x10
    eos_suppressed_rate: 1x10
    ```
    Info at step 10: These metrics are constant in all 10 rows and provide no information: eos_suppressed_rate,
    advantage_mean.

    ```text
    advantage_mean: 0.01 0 -0.01 0x7
    eos_suppressed_rate: 0.9 1x9
    ```
    No finding.

    ## Known false alarms
    No false alarm is possible: the finding is information only.

    ## Remedy
    Log metrics that can change: P(EOS) before suppression instead of the suppression rate, and raw rewards instead of
    advantages.

    ## Sources
    BoBaCai/grpo-dual (an EOS suppressor that always counts 8 of 8); beita6969/colab-grpo (an avg_reward that is an
    advantage).
    """
    columns = (eos_suppressed_rate, advantage_mean, judge_failure_rate, top1_prob)
    rows = [where(best(c) == lowest(c), total(where(isnan(c), 0.0, 1.0)), 0.0) for c in columns]
    longest = reduce(maximum, rows)
    return fires(
        longest >= least_rows,
        "These metrics are constant in all {rows} rows and provide no information: {metrics}.",
        hold=(1, 1),
        rows=longest,
        metrics=words(lambda *n: ", ".join(w for w, k in zip(WATCHED, n, strict=True) if k >= least_rows), *rows),
    )
