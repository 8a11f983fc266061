import math

from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column, baseline, began, is_any, lowest, moving_median, previous, where, words
from grpo_doctor.wording import number


@check(
    "KL001",
    severity="warning",
    explains=(
        "REW009",
        "REW015",
        "STL001",
    ),
    invalidates=("checkpoints since step {onset}",),
)
def kl_explosion(
    kl: Column,
    step: Column,
    reward_fallen: Column = None,
    reward_gained: Column = None,
    rows_are: Column = any_of("settings.rows", optional=True),
    *,
    exploded_nats: float = 1.5,
    onset_nats: float = 0.5,
    grown_factor: float = 10.0,
    sudden_nats: float = 0.1,
    extreme: float = 10.0,
    lasting: float = 5.0,
    beyond: float = 100.0,
) -> Fires:
    """KL exploded: the policy has moved far away from the reference model.

    ## What it sees
    On 2 of 3 rows a KL above 1.5 nats per token and above ten times that of the first row, which is 0 by identity, or
    above 10, or with a median of five rows above 5, whatever it was: warning. The same as error once the reward has
    fallen (five standard errors and 30 % of its range), and then also a KL above 0.1 that is ten times the median of
    the 20 rows before; and where the median of five rows, or each row so far, is above 100 although the reward has
    gained nothing. Critical above 10 with a fallen reward. Where a row is the mean over an epoch (`rows = epochs`) no
    first level is needed: above 1.5 warning, above 10 error. Where the reward has not gained it is an outcome, for then
    nothing was bought with the distance. The onset is where the KL passed 0.5 and stayed above.

    ## Thresholds
    - `exploded_nats`: KL, nats per token, above which it has exploded if it grew.
    - `onset_nats`: KL, nats per token, at whose crossing the explosion begins.
    - `grown_factor`: factor over the first row's KL.
    - `sudden_nats`: KL, nats per token, above which a sudden rise counts.
    - `extreme`: KL, nats per token, above which it has exploded whatever it was.
    - `lasting`: median KL, nats per token, above which it has exploded whatever it was: no text of the reference.
    - `beyond`: KL, nats per token, above which it is an error without a gain in reward.

    ## Why it matters
    The reference is where fluent text lives. A policy far from it has found the reward's loopholes, or has been thrown
    out by one update that was too large: the KL says that it moved, the reward whether it moved for the better.

    ## Known false alarms
    The usual limits of 0.1 and 0.5 fire on healthy runs, hence 1.5 and the join with the reward; `grpo-doctor lab
    --model smollm2` has one in its healthy twin. Runs without a KL term drift by intent.
    Sums over the sequence (TRL PPO `objective/kl`, 5 to 10 from the start) are another field, `kl_sequence`.

    ## Remedy
    Half the learning rate and a checkpoint from before the onset. Raise beta only if it is below 1e-3 (0.001 in R1,
    0.04 in DeepSeekMath); TRL `sync_ref_model=True` moves the reference instead.

    ## Sources
    NeMo-RL guide on k3; arXiv 2402.03300; OpenRLHF#931, volcengine/verl#5274.
    """
    first, before = baseline(kl, 1), previous(moving_median(kl, 20))
    level = moving_median(kl, 5)
    far = ((kl > exploded_nats) & (kl > grown_factor * abs(first))) | (kl > extreme) | (level > lasting)
    absurd = far & ((level > beyond) | (lowest(kl) > beyond)) & ~reward_gained
    sudden = (kl > sudden_nats) & (kl > grown_factor * abs(before)) & reward_fallen
    epochs = is_any(rows_are, "epochs")
    exploded = far | sudden | (epochs & (kl > exploded_nats))
    return fires(
        exploded,
        "The KL to the reference is {kl:.3g} nats/token{began}.",
        error=far & reward_fallen | sudden | absurd | (epochs & (kl > extreme)),
        critical=far & reward_fallen & (kl > extreme),
        hold=(2, 3),
        suffered=far & ~reward_gained,
        onset=began(exploded, kl > onset_nats, step),
        began=words(_began, where(epochs, math.nan, first)),
        kl=kl,
        first=first,
    )


def _began(level: float) -> str:
    return f" (it started at {number(level, 2)})" if level == level else " (mean over an epoch)"
