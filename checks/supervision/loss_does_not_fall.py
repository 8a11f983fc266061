import math
from typing import Any

from grpo_doctor import Fires, check, fires
from grpo_doctor.diagnosis.wording import number
from grpo_doctor.series import (
    Column,
    baseline,
    latest,
    lowest,
    moving_max,
    moving_mean,
    moving_median,
    noise,
    previous,
    row,
    seen,
    total,
    where,
    words,
)


@check(
    "SUP001",
    kind="outcome",
    severity="info",
    confidence="medium",
    run_types=("supervised", "preference"),
    invalidates=("checkpoints since step {onset}: they are worse than earlier checkpoints",),
    about=("loss",),
)
def loss_does_not_fall(
    loss: Column,
    step: Column,
    events: Column = None,
    grad_norm: Column = None,
    *,
    rows: int = 5,
    mean_rows: int = 10,
    early_rows: int = 40,
    half: float = 0.5,
    above_lowest_share: float = 0.3,
    above_first_share: float = 0.25,
    nats: float = 0.1,
    sigmas: float = 5.0,
    fallen: float = 2.5,
) -> Fires:
    """The loss of a supervised or preference run rises or does not fall.

    ## What it sees
    The check compares the median of the last 5 losses with the first and the lowest median of 5 losses. Severity is
    **warning** if the last median exceeds the first by more than a quarter plus 0.1 nats. Severity is **error** if the
    last median is also twice the lowest median. The check also uses the median of the last 20 losses. Severity is
    **warning** if the median of 20 losses is 30% above its lowest value and half of the improvement in the loss has
    been lost. Each rise must exceed 5 standard errors, and only rows before the first restart of the step counter
    count. If the first loss or the gradient norm is 0, severity is also **error** for a loss of exactly 0 on 5
    consecutive rows. Severity is **info** if, starting at the 40th row, no mean of 10 or 80 losses is 2.5 standard
    errors below the first mean. For a loss that does not fall, the onset is the first row.

    ## Thresholds
    - `rows`: number of losses in the short median.
    - `mean_rows`: number of losses in a mean, and half the number of losses in the long median.
    - `early_rows`: number of losses before which a flat loss is not reported.
    - `half`: share of the earlier decrease in the loss, 0 to 1, that a later rise must have undone for a warning.
    - `above_lowest_share`: relative rise above the lowest loss that must be exceeded for a warning.
    - `above_first_share`: relative rise above the first loss that must be exceeded for a warning.
    - `nats`: rise above the first loss, in nats and in addition to `above_first_share`, that must be exceeded for a
      warning.
    - `sigmas`: number of standard errors that a rise must exceed.
    - `fallen`: decrease in the loss, in standard errors, above which the loss counts as fallen.

    ## Why it matters
    If the loss is above the loss of the first rows, the model is worse than at the start. If the loss is exactly 0,
    nothing is trained: every label is masked, or the trainer prints 0 for NaN.

    ## Example
    ```text
    loss: 2x5 1.5x10 3x10
    ```
    Warning at step 18: The loss rose from 1.5 to 3 (first value 2).

    ```text
    loss: 2x5 1.5x10 1.2x10
    ```
    No finding.

    ## Known false alarms
    A data mixture or curriculum may move to harder data. A loss may have a term that grows by design. RL losses are not
    judged, because their values are not informative.

    ## Remedy
    Roll back to a checkpoint from before the rise, lower the learning rate, and clip the gradient at 1. For a loss of
    0, print the labels of one batch. For a loss that does not fall, check the learning rate and the first loss. If the
    first loss is below about 0.3 nats, there is little to learn.

    ## Sources
    transformers logs a NaN loss as 0.0 (logging_nan_inf_filter); public SFT logs with `'loss': 0.0, 'grad_norm': nan`.
    """
    level, scatter = moving_median(loss, rows), noise(loss)
    first, low = baseline(level, 1), lowest(level)
    lasting, once = moving_median(loss, 2 * mean_rows), total(seen(events, "restart")) == 0
    rose = (level - low > sigmas * scatter * math.sqrt(2 / rows)) & (low > 0) & once
    above = rose & (level > (1 + above_first_share) * first + nats)
    diverged = above & (level > 2 * low)
    deep = lowest(lasting)
    regressed = (lasting - deep > sigmas * scatter * math.sqrt(1 / mean_rows)) & (deep > 0) & once
    regressed = regressed & (first - deep > above_lowest_share * deep)
    lost = above | regressed & (lasting > (1 + above_lowest_share) * deep) & (lasting - deep > half * (first - deep))
    nothing = (moving_max(abs(loss), rows) <= 0) & ((first == 0) | (grad_norm == 0))
    fell = False
    for window in (mean_rows, 8 * mean_rows):
        mean = moving_mean(loss, window)
        fell = fell | (baseline(mean, 1) - lowest(mean) > fallen * scatter * math.sqrt(2 / window))
    flat = (row(loss) >= early_rows) & ~fell & (loss != 0)
    since = latest(where(level <= low, previous(step), math.nan))
    return fires(
        flat | diverged | lost | nothing,
        "The loss {what}.",
        clear=2 * rows,
        onset=where(flat & ~(diverged | lost | nothing), baseline(step, 1), math.nan),
        warning=lost,
        error=diverged | nothing,
        what=words(_what, nothing, diverged | lost, first, low, level, row(loss)),
        risen=diverged | lost,
        first=first,
        low=low,
        level=level,
        since=since,
    )


def _what(nothing: Any, rose: Any, first: float, low: float, level: float, rows: float) -> str:
    if nothing:
        return "is exactly 0 on every recent row: no token is trained, or a NaN is logged as 0"
    if rose:
        return f"rose from {number(low)} to {number(level)} (first value {number(first)})"
    return f"has not fallen beyond noise in {rows:.0f} rows: {number(first)} at the start, {number(level)} now"
