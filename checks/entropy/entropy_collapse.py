import numpy as np

from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import (
    Column,
    baseline,
    began,
    best,
    from_start,
    is_any,
    maximum,
    recent_mean,
    row,
    total,
    where,
    words,
)
from grpo_doctor.series import solved as is_solved


@check(
    "ENT001",
    kind="outcome",
    severity="info",
    confidence="medium",
    explains=("SHP001", "SHP002", "ENT002", "DIV001", "DIV003", "ADV003", "REW009", "REW015", "STL001"),
    invalidates=("checkpoints since step {onset}: their responses to the same prompt are almost identical",),
)
def entropy_collapse(
    entropy_mean: Column,
    step: Column,
    rows_are: Column = any_of("settings.rows", optional=True),
    reward_mean: Column = None,
    reward_gained: Column = None,
    reward_fallen: Column = None,
    reward_unit: Column = None,
    reward_solved: Column = None,
    reward_max: Column = None,
    eval_gained: Column = None,
    dead_share: Column = None,
    cut_share: Column = None,
    *,
    low_start_nats: float = 0.1,
    spent_below_share: float = 0.1,
    floor_nats: float = 0.05,
    solved_share: float = 0.8,
    live_below_share: float = 0.5,
    rows: int = 10,
) -> Fires:
    """Entropy collapsed without a reward gain.

    ## What it sees
    Token-mean entropy H in nats, against the first row H0 (before any update). *Low from the start*: H0 below 0.15 and
    H below 0.1. *Spent*: H0 at least 0.15, and H below a tenth of it or below 0.05. An info, and a warning where the
    reward has not gained and is not near its top; of a run that was low from the start an info too where, from ten
    rewards on, more than half of the groups are known to be live. Spent is an error, and an outcome, where the reward
    has fallen from its best, or where H has been below 0.05 on more than half of at least ten rows and the reward
    gained nothing: then the run had nothing left to explore with. Groups that tie, responses that are alike, short or
    invalid have checks of their own, which this one explains. It fires on 3 of 5 rows and clears after 5 rows without;
    the onset is where entropy fell below 30 % of its first value.

    ## Thresholds
    - `low_start_nats`: entropy, nats per token, below which a run that began low stays low.
    - `spent_below_share`: share of the first entropy below which it is spent.
    - `floor_nats`: entropy, nats per token, below which it is spent whatever it was.
    - `solved_share`: reward, as a share of 1 or of the largest single reward, from which little entropy is right.
    - `live_below_share`: share of groups with equal rewards, 0 to 1, below which responses do differ.
    - `rows`: rows, and recorded rewards, from which the lack of a gain counts.

    ## Why it matters
    With no entropy the K responses to a prompt are copies: their rewards tie, the groups are dead and no gradient is
    left. The drop per update is about lr x Cov(log p, A): likely tokens with positive advantage drain it.

    ## Known false alarms
    Low entropy alone is no illness: a CS336 run ends at 0.023 nats with its best accuracy, a TRL run starts at 0.05 and
    learns (11 → 37 %), and a finished small task has 0.08 nats with half of its groups dead. So a gain in reward, or a
    reward above 0.8 of its largest (of 1, on a scale of 0 to 1), silences it. All responses cut at the limit with
    masking of cut responses makes a trainer print an entropy of exactly 0, and some print 0 all along for what they do
    not compute: such rows are left out. Entropies below 0 are summed log-probabilities and are left out.

    ## Remedy
    In this order: prove the sign of the entropy term; sample at temperature 1; raise the upper clip bound (only with
    more than one update per rollout); covariance clipping; an adaptive bonus; fill the batch with live groups. If
    entropy was low on a first row of step 0 or 1, look at the supervised stage and the template first: nothing in RL
    did it. A collapsed policy does not heal in place: go back to a checkpoint from before the onset.

    ## Sources
    arXiv 2505.22617 (law and effect sizes), 2503.14476 (clip-higher); BoBaCai/grpo-dual; real public runs of
    ShibukiZero/assignment5-alignment, JuncyLu/trl_DAPO, kartikmunjal/rlhf-and-reward-modelling-alt; fault
    `flipped-entropy` of the engine.
    """
    placeholder = (entropy_mean == 0) & ((cut_share >= 1) | (best(entropy_mean) <= 0))
    entropy = where((entropy_mean < 0) | placeholder, np.nan, entropy_mean)
    first = baseline(entropy, 1)
    low_born = (first < 1.5 * low_start_nats) & (entropy < low_start_nats)
    spent = (first >= 1.5 * low_start_nats) & (entropy < maximum(spent_below_share * first, floor_nats))
    solved = reward_solved | is_solved(reward_mean, reward_max, reward_unit, share=solved_share)
    idle = ~((reward_gained | eval_gained) & ~reward_fallen | solved)  # nothing to show for it
    begun = from_start(step)
    lasting = (total(entropy < floor_nats) > row(entropy) / 2) & (row(entropy) >= rows)
    suffered = spent & idle & (reward_mean == reward_mean) & (reward_fallen | (lasting & begun))
    alive = (total(reward_mean == reward_mean) >= rows) & (recent_mean(dead_share) < live_below_share)
    untrained = begun & ~is_any(rows_are, "epochs")
    beside = where(low_born, where(untrained, 3, 4), 0)
    return fires(
        low_born | (spent & idle),
        "Entropy is {entropy:.3g} nats (first row: {first:.3g} nats){beside}.",
        warning=((low_born & ~alive) | (spent & (reward_mean == reward_mean))) & idle & (begun | reward_fallen),
        error=suffered,
        suffered=suffered,
        onset=began(spent, entropy < 3 * spent_below_share * first, step),
        entropy=entropy,
        first=first,
        beside=words(lambda which: _BESIDE[int(which)], where(suffered, where(reward_fallen, 1, 2), beside)),
    )


_BESIDE = (
    "",
    ", and the reward fell from its best level",
    ", and the reward has not increased",
    ", before any update",
    ", after updates that are not in the log",
)
