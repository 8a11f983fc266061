from grpo_doctor import Fires, check, fires
from grpo_doctor.diagnosis.wording import all_of, number
from grpo_doctor.series import Column, baseline, best, isnan, latest, row, total, where, words


@check(
    "GRD008",
    vital=True,
    kind="outcome",
    severity="warning",
    confidence="medium",
    run_types=("rl", "supervised", "preference"),
)
def no_gradient_so_far(
    grad_norm: Column,
    step: Column,
    dead_share: Column = None,
    reward_std: Column = None,
    reward_min: Column = None,
    reward_max: Column = None,
    reward_gained: Column = None,
    *,
    rows: int = 2,
) -> Fires:
    """Every gradient norm so far is exactly 0, so nothing has been learned yet.

    ## What it sees
    The check fires if the gradient norm is exactly 0 on every recorded row. Severity is info on the first row and
    warning from the second row. The check is silent once a nonzero norm appears. The check is also silent once the
    reward improves, because an improvement proves that the norm is not measured. The message adds whether rewards
    differed, based on the share of zero-variance groups or, if that is missing, on the spread of the batch rewards.

    ## Thresholds
    - `rows`: minimum number of recorded rows, all with a norm of 0, for severity warning.

    ## Why it matters
    The gradient of a correct loss is exactly 0 only while all advantages are 0. With a gradient of 0, the weights do
    not change, except for weight decay. A gradient of 0 is visible on the first rows of a run.

    ## Example
    ```text
    grad_norm: 0x3
    reward_std: 0.4x3
    ```
    Warning at step 1: The gradient norm has been exactly 0 on all 3 rows, although the rewards of a batch differ
    (spread 0.4).

    ```text
    grad_norm: 0.1x3
    reward_std: 0.4x3
    ```
    No finding.

    ## Known false alarms
    A library may log a norm of 0 without measuring it. A logger may round small norms to 0. The prompts of the first
    batch may all be too easy or too hard, in which case the next row clears the finding.

    ## Remedy
    If all rewards are equal, find out why: score one correct and one wrong answer manually. If rewards differ, run one
    backward pass manually, and inspect the gradients.

    ## Sources
    huggingface/trl#3857 (norm 0 with zero-variance groups only), modelscope/ms-swift#5571 (norm 0 with groups that
    differ), modelscope/ms-swift#5890 (a version of DeepSpeed that logs 0).
    """
    n = row(grad_norm)
    nothing = (total(grad_norm == 0) == n) & ~reward_gained
    spread = latest(where(isnan(reward_std), reward_max - reward_min, reward_std))
    return fires(
        nothing & (n >= rows),
        "The gradient norm has been exactly 0 on {rows}{why}.",
        info=nothing,
        hold=(1, 1),
        clear=1,
        onset=baseline(step, 1),
        rows=words(lambda n: all_of(n, "row"), n),
        why=words(_why, total(dead_share) / total(dead_share == dead_share), spread),
        most_dead=best(dead_share),
    )


def _why(dead: float, spread: float) -> str:
    if dead >= 1 or (dead != dead and spread <= 1e-6):
        return ", because all groups have zero variance"
    if dead < 1:
        return f", although rewards differ in {1 - dead:.0%} of the groups"
    return f", although the rewards of a batch differ (spread {number(spread)})" if spread == spread else ""
