import numpy as np

from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.diagnosis.wording import number
from grpo_doctor.series import (
    Column,
    baseline,
    fmax,
    isnan,
    latest,
    lowest,
    moving_mad,
    moving_max,
    moving_median,
    moving_sum,
    previous,
    row,
    total,
    where,
    words,
)


@check("GRD002", severity="warning", confidence="medium")
def grad_norm_spike(
    grad_norm: Column,
    max_grad_norm: Column = any_of("settings.max_grad_norm", "settings.grad_clip", optional=True),
    reward_fallen: Column = None,
    reward_gained: Column = None,
    *,
    rows: int = 20,
    mads: float = 8.0,
    times: float = 5.0,
    again_within_rows: int = 100,
    after: int = 5,
    huge: float = 20.0,
    level_rows: int = 10,
    absurd: float = 1e6,
) -> Fires:
    """The gradient norm spikes far above recent values.

    ## What it sees
    A spike is a norm (before clipping) above five times the largest norm of the previous 20 rows. The norm must also
    exceed the median of the previous 20 rows plus 8 median absolute deviations. Finally, the norm must exceed the
    clipping limit. If no limit is declared, 1.0 is used, which is the default of the trainers. An infinite norm is also
    a spike. The first 20 rows are not checked for spikes.

    - Severity is **warning** for a single spike, and **info** while the reward has improved.
    - Severity is **error** if a second infinite norm follows within 100 rows. Severity is also error if the reward
      falls within five rows of a spike, by five standard errors and by 30% of its range.
    - Without spikes, the check fires if the median norm over 10 rows is above 20. The check also fires if every norm of
      two or more rows is above a million. If the norm is that large but the reward has improved, severity is **info**.
    - Severity is always **warning** if the median is also more than five times the median of the first 20 rows. The
      scale of the loss cannot explain such growth.

    ## Thresholds
    - `rows`: number of previous rows that a norm is compared with.
    - `mads`: number of median absolute deviations by which a spike must exceed the median of the previous rows.
    - `times`: ratio of a norm to the largest previous norm above which the norm is a spike. `times` is also the ratio
      of the median to the median of the first rows above which the norm counts as grown.
    - `again_within_rows`: number of rows within which a second infinite norm makes the finding an error.
    - `after`: number of rows after a spike within which a fall in reward is attributed to the spike.
    - `huge`: median gradient norm above which the check fires without a spike.
    - `level_rows`: number of rows over which the median norm is computed.
    - `absurd`: gradient norm that the scale of a loss cannot explain, such as a sum over a million tokens whose
      gradients have norm 1.

    ## Why it matters
    A single step along an exploded gradient can undo everything learned before. After an exploded gradient, Adam's
    second moment stays large for hundreds of steps. Repeated infinite norms precede NaN. A public run had infinite
    norms at steps 113, 184, 193 and 194, NaN at step 195, and then a reward of exactly 0. The RAGEN paper reports
    gradient spikes before an irreversible collapse.

    ## Example
    ```text
    grad_norm: 1x20 6
    ```
    Warning at step 21: The gradient norm spiked to 6 (median of the previous 20 rows: 1).

    ```text
    grad_norm: 1x20 2
    ```
    No finding.

    ## Known false alarms
    Clipping absorbs some spikes: a run with one norm of 2.9e9 ended with a score of 78%. In the run with the norm of
    2.9e9, norms exceeded five times the median on 37 of 200 rows. The check therefore compares the norm with the
    largest, not the median, norm of the previous 20 rows. Isolated infinite norms are normal with an fp16 loss scaler.
    Norms are also large if the loss sums over tokens. Of 110 public runs that log a norm, no healthy run had a median
    above 8.

    ## Remedy
    Skip updates with an exploded gradient, set `max_grad_norm` between 0.1 and 0.5, and halve the learning rate. Check
    RAT004 and the largest advantage.

    ## Sources
    arXiv 2504.20073 (RAGEN); huggingface/trl#2980; public CS336 runs of ShibukiZero/assignment5-alignment.
    NVIDIA-NeMo/ProRL-Agent-Server#40: norms of 3e9 and 2e9 with ordinary losses.
    """
    highest, middle = moving_max(previous(grad_norm), rows), moving_median(previous(grad_norm), rows)
    infinite = (abs(grad_norm) == np.inf) & (highest == highest)
    clip = where(isnan(max_grad_norm), 1.0, max_grad_norm)
    leap = (grad_norm > fmax(clip, times * highest)) & (
        grad_norm > middle + mads * moving_mad(previous(grad_norm), rows)
    )
    spike = leap | infinite
    count = total(infinite)
    earlier = previous(count, again_within_rows + 1)
    again = infinite & (count - where(isnan(earlier), 0.0, earlier) > 1)
    level = moving_median(grad_norm, level_rows)
    least = where((row(grad_norm) > 1) & (lowest(grad_norm) < np.inf), lowest(grad_norm), np.nan)
    grown = level > times * baseline(grad_norm, rows)
    high = (level > huge) | (least > absurd)
    tall = high & (grown | ~reward_gained)
    hurt = (moving_sum(spike, after) > 0) & reward_fallen & ~(previous(reward_fallen, after) > 0)
    norm, median = latest(where(spike, grad_norm, np.nan)), latest(where(spike, middle, np.nan))
    return fires(
        hurt | again | tall | (spike & ~reward_gained),
        "{what}",
        info=spike | high,
        error=again | hurt,
        hold=(1, 1),
        what=words(_what, norm, median, where(high, where(isnan(level), least, level), np.nan), row(grad_norm), clip),
        norm=norm,
        median=median,
        level=level,
        rows=rows,
    )


def _what(norm: float, median: float, level: float, rows: float, clip: float) -> str:
    if level == level:
        of = "median of 10" if rows >= 10 else f"lowest of {rows:.0f}"
        effect = f"clipping at {number(clip)} sets the size of every step"
        return f"The gradient norm is {number(level)} ({of} rows), so {effect}."
    return f"The gradient norm spiked to {number(norm)} (median of the previous 20 rows: {number(median)})."
