from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, baseline, from_start, row, total


@check("GRD003", vital=True, severity="warning", explains=("STL001",))
def grad_norm_vanishing(
    grad_norm: Column,
    step: Column,
    dead_share: Column = None,
    reward_risen: Column = None,
    reward_solved: Column = None,
    *,
    vanished_below_share: float = 1e-3,
    dead: float = 0.9,
    rows: int = 10,
) -> Fires:
    """The gradient norm fell to almost 0, although groups still have differing rewards.

    ## What it sees
    Ten rows in a row below a thousandth of the run's first level (median of its first five), while less than 90 % of
    the groups are known to be dead and the task was not solved while it trained, in a log that holds the run's start.
    Where it has been so for more than half of the run, the run suffers from it: it is an outcome, and an **error**
    where the log counts the groups that still differ, for then the weights stand still although there is something to
    learn. A gradient that has been 0 from the first row on is told by GRD008.

    ## Thresholds
    - `vanished_below_share`: share of the first level below which the gradient has vanished.
    - `dead`: share of dead groups, 0 to 1, from which a small gradient is expected.
    - `rows`: rows in a row.

    ## Why it matters
    Without a gradient nothing is learnt, whatever the loss says: a loss near 0 is normal on-policy, and only the
    gradient norm tells the two apart.

    ## Known false alarms
    A run that logs no share of dead groups may simply have solved its task. A warm-up whose first gradients are huge
    raises the level it is compared with.

    ## Remedy
    Look at the share of live groups, the mask, the clip fraction and the list of trained parameters, in this order.

    ## Sources
    huggingface/trl#3452, #2703 (loss 0 with a gradient: healthy), #3857 (dead groups).
    alexchilton/CAS_NLP_MODULE4_GRPO, a Wordle run: 7e-5 after 11 on 233 of 300 rows, at an entropy of 0.001, while one
    group in ten is dead.
    """
    level = baseline(grad_norm, 5)
    vanished = (grad_norm < vanished_below_share * level) & from_start(step)
    mostly = total(vanished) > row(grad_norm) / 2
    return fires(
        vanished & ~(dead_share >= dead) & ~(reward_risen & reward_solved),
        "The gradient norm is {norm:.2g} (it started at {level:.2g}) and has vanished on {vanished:.0f} of "
        "{rows:.0f} rows.",
        hold=(rows, rows),
        error=vanished & mostly & (dead_share < dead) & ~(reward_risen & reward_solved),
        suffered=mostly,
        norm=grad_norm,
        level=level,
        vanished=total(vanished),
        rows=row(grad_norm),
    )
