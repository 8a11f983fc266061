import math

from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.diagnosis.wording import number
from grpo_doctor.series import Column, Trend, baseline, began, is_any, lowest, moving_median, previous, where, words


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
    reward_trend: Trend = None,
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
    The check fires if, on 2 of 3 rows, the KL exceeds both 1.5 nats per token and ten times its first value. On the
    first row, the KL should be 0. Regardless of the first row, the check fires if the KL is above 10, or if its median
    over five rows is above 5.

    - Severity is **warning**, and **error** once the reward has fallen (by five standard errors and 30% of its range).
    - After a fall in reward, severity is also **error** if the KL exceeds both 0.1 and ten times the median of the
      previous 20 rows.
    - Severity is also **error** if the reward has not improved, and either the median over five rows or every KL so far
      is above 100.
    - Severity is **critical** if the KL is above 10 and the reward has fallen.
    - If rows are means over epochs (`rows = epochs`), severity is **warning** above a KL of 1.5, and **error** above a
      KL of 10. For means over epochs, the KL of the first row is not used.

    The reported onset is the step at which the KL last rose above 0.5.

    ## Thresholds
    - `exploded_nats`: KL, nats per token, above which a KL that has grown by `grown_factor` counts as exploded.
    - `onset_nats`: KL, nats per token, above which the explosion counts as having begun.
    - `grown_factor`: ratio of the KL to the KL of the first row above which the KL counts as grown.
    - `sudden_nats`: KL, nats per token, above which a sudden rise is an error if the reward has fallen.
    - `extreme`: KL, nats per token, above which the KL counts as exploded regardless of its first value.
    - `lasting`: median KL over five rows, nats per token, above which the KL counts as exploded regardless of its first
      value.
    - `beyond`: KL (median over five rows, or every KL so far), nats per token, above which the severity is error if the
      reward has not improved.

    ## Why it matters
    Fluent text stays close to the reference model. If a policy is far from the reference model, it exploits the reward,
    or an update was too large. The KL shows how far the policy has moved. The reward shows whether the policy has
    improved.

    ## Example
    ```text
    kl: 0.05x10 12x10
    reward_mean: 0.5x10 0.1x10
    ```
    Critical at step 11: The KL to the reference model is 12 nats/token (0.05 at the start).

    ```text
    kl: 0.05x10 0.4x10
    reward_mean: 0.5x20
    ```
    No finding.

    ## Known false alarms
    With the usual limits of 0.1 and 0.5, the check would fire on healthy runs, such as the reference run of
    `grpo-doctor lab --model smollm2`. The limit is therefore 1.5, and an error also requires a fall in reward. Without
    a KL term, the policy drifts from the reference model by design. Sums over the sequence (`objective/kl` of TRL's
    PPO, 5 to 10 from the start) are stored in a separate field, `kl_sequence`.

    ## Remedy
    Halve the learning rate, and roll back to a checkpoint from before the onset. Raise beta only if it is below 0.001
    (R1 used 0.001, DeepSeekMath 0.04). In TRL, you can instead set `sync_ref_model=True`, which updates the reference
    model.

    ## Sources
    NeMo-RL guide on k3; arXiv 2402.03300; OpenRLHF#931, volcengine/verl#5274.
    """
    first, before = baseline(kl, 1), moving_median(previous(kl), 20)
    level = moving_median(kl, 5)
    far = ((kl > exploded_nats) & (kl > grown_factor * abs(first))) | (kl > extreme) | (level > lasting)
    absurd = far & ((level > beyond) | (lowest(kl) > beyond)) & ~reward_trend.gained
    sudden = (kl > sudden_nats) & (kl > grown_factor * abs(before)) & reward_trend.fallen
    epochs = is_any(rows_are, "epochs")
    exploded = far | sudden | (epochs & (kl > exploded_nats))
    return fires(
        exploded,
        "The KL to the reference model is {kl:.3g} nats/token{began}.",
        error=far & reward_trend.fallen | sudden | absurd | (epochs & (kl > extreme)),
        critical=far & reward_trend.fallen & (kl > extreme),
        hold=(2, 3),
        suffered=far & ~reward_trend.gained,
        onset=began(exploded, kl > onset_nats, step),
        began=words(_began, where(epochs, math.nan, first)),
        kl=kl,
        first=first,
    )


def _began(level: float) -> str:
    return f" ({number(level, 2)} at the start)" if level == level else " (mean over an epoch)"
