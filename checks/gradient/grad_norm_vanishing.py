from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, Trend, baseline, from_start, row, total


@check("GRD003", vital=True, severity="warning", explains=("STL001",))
def grad_norm_vanishing(
    grad_norm: Column,
    step: Column,
    dead_share: Column = None,
    reward_trend: Trend = None,
    *,
    vanished_below_share: float = 1e-3,
    dead: float = 0.9,
    rows: int = 10,
) -> Fires:
    """The gradient norm fell to almost 0, although groups still have differing rewards.

    ## What it sees
    The check fires if the norm is below a thousandth of its first level (the median of the first five norms) on ten
    consecutive rows. The log must include the run's start, and the task must not be solved. The check is silent if at
    least 90% of the groups are known to have zero variance. Severity is **error** if the norm has vanished on more than
    half of all rows and the log shows groups whose rewards differ. In such a run, differing rewards provide a signal,
    but the weights do not change. GRD008 covers a gradient norm that has been 0 since the first row.

    ## Thresholds
    - `vanished_below_share`: ratio of the norm to its first level below which the gradient counts as vanished.
    - `dead`: minimum share of zero-variance groups, 0 to 1, at which a small gradient is expected.
    - `rows`: number of consecutive rows with a vanished gradient at which the check fires.

    ## Why it matters
    Without a gradient, nothing is learned, whatever the value of the loss. A loss near 0 is normal in on-policy
    training, so only the gradient norm shows that the gradient has vanished.

    ## Example
    ```text
    grad_norm: 2x10 0x10
    ```
    Warning at step 11: The gradient norm is 0 (2 at the start) and was almost 0 on 10 of 20 rows.

    ```text
    grad_norm: 2x10 0.5x10
    ```
    No finding.

    ## Known false alarms
    A run that does not log the share of zero-variance groups may simply have solved its task. Huge gradients at the
    start of a warm-up raise the first level.

    ## Remedy
    Check the share of groups with differing rewards, the mask, the clip fraction and the list of trained parameters,
    in this order.

    ## Sources
    huggingface/trl#3452, #2703 (loss 0 with a gradient: healthy), #3857 (zero-variance groups).
    alexchilton/CAS_NLP_MODULE4_GRPO, a Wordle run: the norm is 7e-5, initially 11, on 233 of 300 rows, at an entropy of
    0.001, while one group in ten has zero variance.
    """
    level = baseline(grad_norm, 5)
    vanished = (grad_norm < vanished_below_share * level) & from_start(step)
    mostly = total(vanished) > row(grad_norm) / 2
    return fires(
        vanished & ~(dead_share >= dead) & ~(reward_trend.risen & reward_trend.solved),
        "The gradient norm is {norm:.2g} ({level:.2g} at the start) and was almost 0 on {vanished:.0f} of "
        "{rows:.0f} rows.",
        hold=(rows, rows),
        error=vanished & mostly & (dead_share < dead) & ~(reward_trend.risen & reward_trend.solved),
        suffered=mostly,
        norm=grad_norm,
        level=level,
        vanished=total(vanished),
        rows=row(grad_norm),
    )
