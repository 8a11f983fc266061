from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, best, leaps, total, where


@check("GRD010", severity="warning", confidence="medium", explains=("REW009", "REW015", "STL001"))
def loss_leaps_again(
    loss: Column,
    reward_gained: Column = None,
    *,
    times: float = 100.0,
    rows: int = 20,
    tall: float = 20.0,
    again: int = 3,
    within: int = 100,
    often: int = 10,
) -> Fires:
    """The loss repeatedly spikes to 100 times its recent median and recovers.

    ## What it sees
    A spike is a loss whose absolute value is above 20 and above a hundred times the median absolute loss of the
    previous 20 rows. The check fires at the third spike within 100 rows. Severity is **warning**, or **error** from the
    tenth spike, if the reward has not improved. If the reward has improved, the severity is info. GRD009 covers spikes
    of the gradient norm.

    ## Thresholds
    - `times`: ratio of the absolute loss to the median of the previous rows above which the loss is a spike.
    - `rows`: number of previous rows over which the median is computed.
    - `tall`: absolute loss that a spike must exceed, because the loss of a GRPO run is near 0 by construction.
    - `again`: number of spikes at which the check fires; one spike can occur by chance.
    - `within`: number of rows over which spikes are counted.
    - `often`: number of spikes from which the severity is error in a run without a gain in reward.

    ## Why it matters
    If ratios are near 1 and advantages are of size 1, the absolute surrogate loss is at most 1. If a loss reaches
    thousands, the loss and its gradient come from a few tokens whose ratio or KL term is unbounded. A step along such a
    gradient undoes earlier learning.

    ## Example
    ```text
    loss: 0.04x20 5000 0.04x19 5000 0.04x19 5000 0.04x19
    ```
    Warning at step 21: The loss spiked 3 times to at least 100 times its recent median (maximum: 5000).

    ```text
    loss: 0.04x20 1 0.04x19 1 0.04x19 1 0.04x19
    ```
    No finding.

    ## Known false alarms
    The logged loss may include the loss of a critic with returns on a large scale.

    ## Remedy
    Find the quantity that explodes on the rows with a spike. Clamp the log-ratio before exp, clip on both sides, and
    skip updates with an exploded loss.

    ## Sources
    jorahn/rookworld-rlvr, training_history.jsonl: 1e2 to 5e7 between losses of 0.04, and a reward that stays at 0.6.
    """
    size = abs(loss)
    leap = leaps(size, rows, times, tall)
    return fires(
        leap & ~reward_gained,
        "The loss spiked {leaps:.0f} times to at least 100 times its recent median (maximum: {highest:.3g}).",
        info=leap,
        error=leap & ~reward_gained & (total(leap) >= often),
        hold=(again, within),
        clear=within,
        suffered=~reward_gained,
        leaps=total(leap),
        highest=best(where(leap, size, float("nan"))),
    )
