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
    The check fires if, on 2 of 3 rows, the KL exceeds both 1.5 nats per token and ten times its first value. The KL of
    the first row should be 0. The check fires regardless of the first row if the KL is above 10, or if its median over
    five rows is above 5.

    - Severity is **warning**, and **error** once the reward has fallen (by five standard errors and 30% of its range).
    - After a fall in reward, severity is also **error** if the KL exceeds both 0.1 and ten times the median of the
      previous 20 rows.
    - Severity is also **error** if the reward has not gained, and either the median over five rows or every KL so far
      is above 100.
    - Severity is **critical** if the KL is above 10 and the reward has fallen.
    - If rows are means over epochs (`rows = epochs`), severity is **warning** above a KL of 1.5, and **error** above a
      KL of 10. The KL of the first row is then not used.

    The onset is the step since which the KL has been above 0.5.

    ## Thresholds
    - `exploded_nats`: KL, nats per token, above which a KL that has grown by `grown_factor` counts as exploded.
    - `onset_nats`: KL, nats per token, above which the explosion counts as begun.
    - `grown_factor`: ratio of the KL to the KL of the first row above which the KL counts as grown.
    - `sudden_nats`: KL, nats per token, above which a sudden rise in the KL is an error if the reward has fallen.
    - `extreme`: KL, nats per token, above which the KL counts as exploded regardless of its first value.
    - `lasting`: median KL over five rows, nats per token, above which the KL counts as exploded regardless of its first
      value.
    - `beyond`: KL (median over five rows, or every KL so far), nats per token, above which the severity is error if the
      reward has not gained.

    ## Why it matters
    Fluent text is close to the reference. A policy far from the reference exploits the reward, or an update was too
    large. The KL shows that the policy moved; the reward shows whether the policy improved.

    ## Example
    ```text
    kl: 0.05x10 12x10
    reward_mean: 0.5x10 0.1x10
    ```
    Critical at step 11: The KL to the reference is 12 nats/token (0.05 at the start).

    ```text
    kl: 0.05x10 0.4x10
    reward_mean: 0.5x20
    ```
    No finding.

    ## Known false alarms
    A check with the usual limits of 0.1 and 0.5 would fire on healthy runs, such as the reference run of `grpo-doctor
    lab --model smollm2`. The check therefore uses 1.5 and, for an error, also requires a fall in reward. Runs without a
    KL term drift by design. Sums over the sequence (`objective/kl` of TRL's PPO, 5 to 10 from the start) are read into
    a separate field, `kl_sequence`.

    ## Remedy
    Halve the learning rate, and roll back to a checkpoint from before the onset. Raise beta only if it is below 0.001
    (R1 used 0.001, DeepSeekMath 0.04). In TRL, `sync_ref_model=True` updates the reference instead.

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
        "The KL to the reference is {kl:.3g} nats/token{began}.",
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
