import math
from typing import Any

from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.diagnosis.wording import listed, number
from grpo_doctor.series import (
    Column,
    Trend,
    baseline,
    best,
    isnan,
    latest,
    noise,
    previous,
    recent_mean,
    sqrt,
    total,
    where,
    words,
)
from grpo_doctor.series.trajectory import CHANCE


@check(
    "PRF002",
    vital=True,
    denies_learning=True,
    kind="outcome",
    severity="warning",
    confidence="medium",
    run_types=("preference",),
    explains=("SUP001",),
    about=("loss", "success_rate", "reward_margin"),
)
def pairs_not_told_apart(
    step: Column,
    known: Column = any_of("loss", "success_rate", "reward_margin"),
    loss: Column = None,
    learning_rate: Column = None,
    success_trend: Trend = None,
    reward_margin: Column = None,
    chosen_logp: Column = None,
    *,
    early_rows: int = 40,
    rows: int = 12,
    proving_rows: int = 3,
    headroom_share: float = 0.1,
    untouched: float = 0.01,
    warm_up: int = 150,
    fallen: float = 2.5,
    usual_rate: float = 1e-5,
) -> Fires:
    """Preference training does not learn: reward accuracy and margin have not improved since the start.

    ## What it sees
    The check starts at the 40th step and the 12th row.

    - **Flat** (warning): the reward accuracy is not near 1, and its gain plus its noise is below a tenth of the
      possible gain.
    - **At its start** (warning): the mean of the last 12 margins is within 0.02 of 0. Without margins, the mean of the
      last 12 losses must be within 0.01 of ln 2, the loss at a margin of 0. In addition, the mean of all losses must
      not be below ln 2 beyond its noise. This case does not apply while the learning rate is still rising (before step
      150 if no learning rate is recorded).
    - **Exactly 0**: severity is **error** if all margins of the run, or all log-probabilities of the chosen responses,
      are exactly 0. Severity is **warning** after three margins of 0 if the learning rate is already falling. In this
      case, full updates were made, but the policy still equals its reference model.

    The cases **Flat** and **At its start** require one of two conditions. The loss has not fallen beyond its noise, or
    the mean of the last 12 margins is below -0.01. In addition, the reward accuracy must not have improved, and must
    not exceed one half by more than its noise. The message reports that the learning rate is too low if the largest
    margin is between 0 and 0.01 and the rate stays below 1e-5.

    ## Thresholds
    - `early_rows`: number of steps before which the check does not fire.
    - `rows`: number of rows over which each mean is computed, and before which the check does not fire.
    - `proving_rows`: number of rows with a margin of exactly 0 that are sufficient once the learning rate falls.
    - `headroom_share`: share of the possible gain, 0 to 1, that the gain of the reward accuracy plus its noise must not
      reach.
    - `untouched`: distance of the loss from ln 2, in nats, below which the policy counts as unchanged. For the distance
      of the margin from 0, the limit is twice as large, because a margin of m moves the loss by m/2. Also the distance
      below 0 beyond which a margin contradicts learning.
    - `fallen`: decrease in the loss, in standard errors, above which the loss counts as fallen.
    - `usual_rate`: learning rate below which the rate counts as too low (for LoRA, set 5e-5).
    - `warm_up`: maximum number of steps of a warm-up if no learning rate is recorded (default of the DPO authors).

    ## Why it matters
    If the policy equals its reference model, the loss is ln 2 and the margin is 0 on every pair, by identity (arXiv
    2305.18290, equation 7). A run whose loss stays at ln 2 costs as much as a run that learns, and returns the initial
    model.

    ## Example
    ```text
    loss: 0.6931x60
    reward_margin: 0x60
    learning_rate: 5e-7x60
    ```
    Error at step 1: The policy does not learn the preference pairs: after 60 rows, the loss is 0.6931 and the margin is
    0.

    ```text
    loss: 0.69->0.4x60
    reward_margin: 0->1x60
    learning_rate: 5e-7x60
    ```
    No finding.

    ## Known false alarms
    The check also fires during a warm-up of hundreds of steps whose learning rate is not logged. Losses that do not
    start at ln 2 (KTO, IPO, ORPO) are judged only by the reward accuracy if margins are not logged.

    ## Remedy
    First check that response tokens are scored, and that policy and reference model are different modules. Then check
    that the two responses of a pair differ, and that the learning rate reaches the trained weights.

    ## Sources
    Yifan-Song793/ETO#14: the loss stays at 0.6931, and margins and log-probabilities are 0.0. The warm-up:
    eric-mitchell/direct-preference-optimization, config/config.yaml.
    """
    seen = total(known == known)
    long = (step - baseline(step, 1) >= early_rows - 1) & (seen >= rows)
    flat = success_trend.possible_gain < headroom_share * (1 - success_trend.first)
    level, margin = recent_mean(loss, rows), recent_mean(reward_margin, rows)
    losses, scatter = total(loss == loss), noise(loss)
    fell = baseline(level, 1) - level > fallen * scatter * math.sqrt(2 / rows)
    beats_chance = success_trend.now - success_trend.shown > CHANCE["success_rate"]
    learns = (fell & ~(margin < -untouched)) | success_trend.gained | success_trend.solved | beats_chance
    apart = where(isnan(margin), 0.0, abs(margin)) > 2 * untouched
    rate = latest(learning_rate)
    warm = where(isnan(rate), step - baseline(step, 1) >= warm_up, rate <= previous(rate))
    below = math.log(2) - total(loss) / losses > untouched + fallen * scatter / sqrt(losses)
    still = (((abs(level - math.log(2)) < untouched) & ~below) | (margin == margin)) & ~apart & warm
    alike = best(abs(reward_margin)) <= 0
    too_low = ~alike & (best(abs(reward_margin)) < untouched) & (best(rate) < usual_rate)
    unmoved = alike | (best(abs(chosen_logp)) <= 0)
    proven = alike & (total(reward_margin == reward_margin) >= proving_rows) & (rate < previous(rate))
    return fires(
        long & ((flat | still) & ~learns | unmoved) | proven,
        "The policy does not learn the preference pairs: {what}.{cause}",
        error=long & unmoved,
        hold=(1, 1),
        clear=1,
        onset=baseline(step, 1),
        what=words(_what, level, success_trend.now, margin, best(abs(chosen_logp)), seen),
        cause=words(_cause, too_low, best(abs(reward_margin)), best(rate)),
        too_low=too_low,
        loss=level,
        accuracy=success_trend.now,
        margin=margin,
        rows=seen,
    )


def _cause(too_low: bool, margin: float, rate: float) -> str:
    if not too_low:
        return ""
    return f" The learning rate is too low: at {number(rate)}, no margin exceeds {number(margin)}."


def _what(loss: Any, accuracy: Any, margin: Any, logp: Any, rows: float) -> str:
    if logp == 0:
        return f"the log-probability of the chosen responses is 0 in all {rows:.0f} rows: no token is scored"
    said = [
        *([f"the loss is {number(loss, 4)}"] if loss == loss else []),
        *([f"the margin is {number(margin, 2)}"] if margin == margin else []),
        *([f"the reward accuracy is {number(accuracy, 2)}"] if accuracy == accuracy else []),
    ]
    return f"after {rows:.0f} rows, {listed(said)}"
