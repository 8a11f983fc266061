from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, baseline, isnan, latest, row, total, where, words
from grpo_doctor.wording import number


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
    A gradient norm of exactly 0 on each recorded row since the first: an info on the first row, a warning from the
    second, for as long as no other value has come and the reward has not gained (a reward that rises proves that the
    norm is not measured). It needs no more rows, because each of them is an identity. Beside it stands whether rewards
    differed on them: by the share of groups without spread or, where none is recorded, by the spread of the batch.

    ## Thresholds
    - `rows`: recorded rows, all with a norm of 0, from which it is a warning.

    ## Why it matters
    The gradient of a working loss is not exactly 0 while advantages differ, and cannot be anything else while they do
    not. Either way the weights stay where they are, but for weight decay; both can be seen on the first rows of a run.

    ## Known false alarms
    A library that never measures the norm, a logger that rounds small norms to 0, and a first batch whose prompts are
    all too easy or too hard by chance, which the next row clears.

    ## Remedy
    Where all rewards are equal, find out why before anything else: score one right and one wrong answer by hand. Where
    they differ, one backward pass by hand, and look at the gradients.

    ## Sources
    huggingface/trl#3857 (norm 0 with every group dead), modelscope/ms-swift#5571 (norm 0 with groups that differ),
    modelscope/ms-swift#5890 (a version of DeepSpeed that logs 0).
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
        rows=words(_rows, n),
        why=words(_why, latest(dead_share), spread),
    )


def _rows(n: float) -> str:
    return "the only row" if n == 1 else f"all {n:.0f} rows"


def _why(dead: float, spread: float) -> str:
    if dead >= 1 or (dead != dead and spread <= 1e-6):
        return ", because all groups have zero variance"
    if dead < 1:
        return f", although rewards differ in {1 - dead:.0%} of the groups"
    return f", although the rewards of a batch differ (spread {number(spread)})" if spread == spread else ""
