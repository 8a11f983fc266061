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
)
from grpo_doctor.series import solved as is_solved


@check(
    "ENT001",
    kind="outcome",
    severity="info",
    confidence="medium",
    explains=("SHP001", "SHP002", "ENT002", "DIV001", "DIV003", "ADV003", "REW009", "REW015", "STL001"),
    invalidates=("checkpoints since step {onset}: their entropy has collapsed",),
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
    The check compares the token-mean entropy H, in nats, with H0 on the first row, before any update.

    - Entropy is *low from the start* if H0 is below 0.15 and H is below 0.1.
    - Entropy has *collapsed* if H0 is at least 0.15 and H is below a tenth of H0 or below 0.05.

    Severity is info, or warning if the reward has not improved and is not near its maximum. If entropy was low from the
    start, severity stays info once more than half of the groups in ten rewards are known to have differing rewards. A
    collapse is an error if the reward has fallen from its best level. A collapse is also an error if H was below 0.05
    on more than half of ten or more rows without a gain in reward.

    Zero-variance groups, and duplicate, short or invalid responses have separate checks. ENT001 explains their
    findings. The check fires on 3 of 5 rows and clears after 5 rows without the condition. The reported onset is the
    step at which entropy fell below 30% of its first value.

    ## Thresholds
    - `low_start_nats`: entropy, nats per token, below which the entropy of a run that started low counts as still low.
    - `spent_below_share`: ratio of entropy to its first value below which entropy counts as collapsed.
    - `floor_nats`: entropy, nats per token, below which entropy counts as collapsed regardless of its first value.
    - `solved_share`: reward, as a share of 1 or of the largest single reward, above which low entropy is expected.
    - `live_below_share`: share of groups with equal rewards, 0 to 1, below which the rewards within groups are known to
      differ.
    - `rows`: minimum number of rows for an error without a fall in reward. `rows` is also the minimum number of
      recorded rewards at which a low start stays at info.

    ## Why it matters
    Without entropy, the K responses to a prompt are identical: their rewards are equal, the groups have zero variance,
    and there is no gradient. Each update lowers entropy by about lr x Cov(log p, A), so high-probability tokens with a
    positive advantage reduce entropy.

    ## Example
    ```text
    entropy_mean: 1x7 0.09x5
    reward_mean: 0.3x12
    ```
    Warning at step 8: Entropy is 0.09 nats/token (1 on the first row).

    ```text
    entropy_mean: 1x7 0.3x5
    reward_mean: 0.3x12
    ```
    No finding.

    ## Known false alarms
    Low entropy alone is not a problem. A CS336 run ends at 0.023 nats with its best accuracy. A TRL run starts at 0.05
    nats, and its score rises from 11% to 37%. On a small task that is solved, entropy may be 0.08 nats while half of
    the groups have zero variance. Therefore, the check is silent if the reward has improved or is above 0.8 of its
    maximum (which is 1 for rewards between 0 and 1). Some trainers print an entropy of exactly 0 if all responses are
    masked, or if they do not compute entropy; such rows are skipped. Negative values are summed log-probabilities and
    are also skipped.

    ## Remedy
    Verify the sign of the entropy term first. Then raise the upper clip bound (only with more than one update per
    rollout), and try covariance clipping. Next, use an adaptive bonus, fill the batch with groups whose rewards differ,
    and sample at temperature 1. Lower the learning rate last, unless another finding also recommends a lower learning
    rate. If entropy was already low at step 0 or 1, check the supervised stage and the template first, because RL is
    not the cause. A collapsed policy does not recover if training continues: roll back to a checkpoint before the
    onset.

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
    idle = ~((reward_gained | eval_gained) & ~reward_fallen | solved)  # without a gain
    begun = from_start(step)
    lasting = (total(entropy < floor_nats) > row(entropy) / 2) & (row(entropy) >= rows)
    suffered = spent & idle & (reward_mean == reward_mean) & (reward_fallen | (lasting & begun))
    alive = (total(reward_mean == reward_mean) >= rows) & (recent_mean(dead_share) < live_below_share)
    untrained = begun & ~is_any(rows_are, "epochs")
    since = where(untrained, ", before any update", ", after updates that are not in the log")
    outcome = where(reward_fallen, ", and the reward fell from its best level", ", and the reward has not increased")
    return fires(
        low_born | (spent & idle),
        "Entropy is {entropy:.3g} nats/token ({first:.3g} on the first row{begun}){outcome}.",
        warning=((low_born & ~alive) | (spent & (reward_mean == reward_mean))) & idle & (begun | reward_fallen),
        error=suffered,
        suffered=suffered,
        onset=began(spent, entropy < 3 * spent_below_share * first, step),
        entropy=entropy,
        first=first,
        begun=where(low_born & ~suffered, since, ""),
        outcome=where(suffered, outcome, ""),
    )
