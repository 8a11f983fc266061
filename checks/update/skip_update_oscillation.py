from grpo_doctor import Fires, check, fires
from grpo_doctor.series import COLLAPSED, Column, isnan, previous, row, total, where


@check("UPD006", kind="defect", severity="warning")
def skip_update_oscillation(
    update_applied: Column,
    invalid_rate: Column,
    *,
    autocorrelation: float = -0.15,
    ended_share: float = 0.8,
    least_ends: int = 3,
) -> Fires:
    """A rule that skips updates makes collapse and recovery alternate.

    ## What it sees
    The check applies to a run that skips some updates and applies others. The check fires if the lag-1 autocorrelation
    of the collapses is below -0.15. The check also fires if at least 80% of three or more collapses end at the first
    step whose update was skipped.

    ## Thresholds
    - `autocorrelation`: lag-1 autocorrelation of the collapses below which the check fires.
    - `ended_share`: minimum share of collapses that end at a skipped update, 0 to 1.
    - `least_ends`: minimum number of applied updates, and of collapses that ended at a skipped update.

    ## Why it matters
    The skip rule makes a permanent fault look like an unstable policy: every skip hides the fault for one rollout. The
    mean of the reward or of the share of valid responses over a run with a skip rule mixes two states and describes
    neither.

    ## Example
    ```text
    update_applied: 1 0 1 0 1 0 1
    valid_rate: 1 0 1 0 1 0 1
    ```
    Warning at step 7: Collapse alternates with skipped updates: 3 of 3 collapses ended at a skipped update (lag-1
    autocorrelation -0.86).

    ```text
    update_applied: 1 0 1 0 1 0 1
    valid_rate: 0.95x7
    ```
    No finding.

    ## Known false alarms
    Two kinds of batches may alternate for another reason.

    ## Remedy
    Log the share of valid responses separately after an update and after a skip. Then look for state that persists
    after the update (GEN001). The skip rule must not call `train()` or the scheduler.

    ## Sources
    beita6969/colab-grpo's log: the autocorrelation is -0.18, and the fallback rate is 99.6% after an update and 5.1%
    after a skip.
    """
    collapsed = invalid_rate >= COLLAPSED
    z = where(collapsed, 1.0, 0.0)
    n, held = row(z), total(z)
    together = total(z * where(isnan(previous(z)), 0.0, previous(z)))
    mean = held / n
    lag = (together - mean * (2 * held - z) + (n - 1) * mean**2) / (n * mean * (1 - mean))
    ended = total((previous(z) == 1) & (z == 0))
    skipped = total((previous(z) == 1) & (z == 0) & (previous(update_applied) == 0))
    mixed = (total(update_applied == 1) >= least_ends) & (skipped >= least_ends)
    return fires(
        mixed & ((lag < autocorrelation) | (skipped >= ended_share * ended)),
        "Collapse alternates with skipped updates: {skipped} of {ended} collapses ended at a skipped update (lag-1 "
        "autocorrelation {lag:.2f}).",
        hold=(1, 1),
        skipped=skipped,
        ended=ended,
        lag=lag,
    )
