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
    """The loss repeatedly spikes to 100 times its level and recovers.

    ## What it sees
    Three rows within 100 with a loss whose size is above a hundred times the median size of the 20 rows before, and
    above 20. **warning**, and an outcome where the reward has not gained; **error** from the tenth leap on; an info
    where the reward has gained. What the gradient norm does on such rows is GRD009.

    ## Thresholds
    - `times`: factor over the median size of the rows before.
    - `rows`: rows of that median.
    - `tall`: size of the loss up to which a leap is that of a run whose loss is near 0 by construction.
    - `again`: leaps that make it a habit; one is an accident.
    - `within`: rows within which so many must come.
    - `often`: leaps from which a run that has gained nothing is failing.

    ## Why it matters
    A surrogate of ratios near 1 and advantages of size 1 is of size 1 at most. A loss of thousands is one of a few
    tokens, whose ratio or KL term has no bound, and so is its gradient: such a step undoes what the others taught.

    ## Known false alarms
    A critic's loss on returns of any scale, where it is part of the loss that is logged.

    ## Remedy
    Find what is unbounded on those rows. Clamp the log-ratio before exp, clip from both sides, skip such updates.

    ## Sources
    jorahn/rookworld-rlvr, training_history.jsonl: 1e2 to 5e7 between losses of 0.04, and a reward that stays at 0.6.
    """
    size = abs(loss)
    leap = leaps(size, rows, times, tall)
    return fires(
        leap & ~reward_gained,
        "The loss has spiked {leaps:.0f} times to at least 100 times its level, up to {highest:.3g}.",
        info=leap,
        error=leap & ~reward_gained & (total(leap) >= often),
        hold=(again, within),
        clear=within,
        suffered=~reward_gained,
        leaps=total(leap),
        highest=best(where(leap, size, float("nan"))),
    )
