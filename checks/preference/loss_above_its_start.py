import math

from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import (
    Column,
    Trend,
    baseline,
    is_any,
    isnan,
    latest,
    noise,
    recent_mean,
    recent_min,
    where,
    words,
)
from grpo_doctor.series.trajectory import CHANCE


@check(
    "PRF006",
    vital=True,
    kind="outcome",
    severity="warning",
    confidence="high",
    run_types=("preference",),
    invalidates=("checkpoints since step {onset}: the untrained model has a lower loss",),
    about=("loss", "eval_loss"),
)
def loss_above_its_start(
    known: Column = any_of("loss", "eval_loss"),
    loss: Column = None,
    eval_loss: Column = None,
    eval_trend: Trend = None,
    success_trend: Trend = None,
    loss_type: Column = any_of("settings.loss_type", optional=True),
    *,
    rows: int = 10,
    evaluations: int = 2,
    moved: float = 0.01,
    untouched: float = 0.05,
    above: float = 0.1,
    sigmas: float = 4.6,
    follows: float = 0.5,
) -> Fires:
    """The preference loss is above ln 2, the loss of the untrained model.

    ## What it sees
    The check fires if the mean of the last 10 losses is more than 0.1 above ln 2. In addition, the mean must exceed ln
    2 by more than 4.6 standard errors, or each of the 10 losses must be above ln 2 + 0.1. The check judges only losses
    of the form -log sigmoid(margin). The loss type must be declared as `sigmoid`, or the first loss must be within 0.05
    of ln 2.

    The check also fires if the held-out loss is more than 0.01 above ln 2 in the last two evaluations. Severity is
    **info** if the held-out accuracy has improved and exceeds one half by at least half as much as the training
    accuracy does. If no loss type is declared, the first training loss must be at most ln
    2 + 0.05, because the losses of other methods start higher.

    ## Thresholds
    - `rows`: number of losses in the mean.
    - `evaluations`: number of held-out losses that must be above ln 2.
    - `moved`: distance from ln 2, in nats, that each held-out loss must exceed.
    - `untouched`: distance of the first loss from ln 2, in nats, up to which the loss counts as that of an untrained
      model.
    - `above`: distance from ln 2, in nats, that the mean or each loss must exceed.
    - `sigmas`: number of standard errors by which the mean must exceed ln 2 (critical value of a test that is repeated
      after every row).
    - `follows`: share of the training accuracy's distance from one half that the held-out accuracy must reach.

    ## Why it matters
    A policy that equals its reference model has a loss of ln 2 on every pair, by identity (arXiv 2305.18290, equation
    7). A higher loss means that the policy ranks some pairs wrongly, and by wide margins: the initial model was better
    on these pairs.

    ## Example
    ```text
    loss: 0.693x5 1.2x10
    ```
    Warning at step 10: The loss is 1.2, above the loss of the untrained model (ln 2 = 0.693). Some pairs are ranked
    wrongly by wide margins.

    ```text
    loss: 0.693x5 0.6x10
    ```
    No finding.

    ```text
    loss: 0.693 0.5 0.3 0.1
    eval_loss: ? 0.72 ? 0.9
    ```
    Warning at step 4: The held-out loss is 0.9, above the loss of the untrained model (ln 2 = 0.693). Some pairs are
    ranked wrongly by wide margins.

    ## Known false alarms
    For a loss with an additional term (such as the likelihood of the chosen response), the check also fires if the
    first value is ln 2 by chance.

    ## Remedy
    Use a tenth of the learning rate, clip the gradient at 1, and roll back to a checkpoint before the rise.

    ## Sources
    st125052/a5-nlp-direct-preference-optimization, DPO-Experiment.ipynb (third run: 0.70 at the start, up to 1.95);
    Suryansh2204/AIT-NLP-Assignment5, DPO.ipynb (24 runs with losses of 1.7 to 605).
    """
    untrained = math.log(2)
    declared, begun = is_any(loss_type, "sigmoid"), baseline(loss, 1) - untrained
    excess = recent_mean(loss, rows) - untrained
    clear = (excess > sigmas * noise(loss) / math.sqrt(rows)) | (recent_min(loss, rows) - untrained > above)
    trained = (declared | (abs(begun) <= untouched)) & (excess > above) & clear
    held_out = recent_min(eval_loss, evaluations) - untrained > moved
    held_out = held_out & (declared | (isnan(loss_type) & (begun <= untouched)))
    trained_gain = success_trend.now - CHANCE["success_rate"]
    learns = eval_trend.gained & ~(eval_trend.now - CHANCE["eval_score"] < follows * trained_gain)
    return fires(
        trained | (held_out & ~learns),
        "The {which} is {level:.3g}, above the loss of the untrained model (ln 2 = 0.693). Some pairs are ranked "
        "wrongly by wide margins.",
        info=held_out,
        hold=(1, 1),
        clear=1,
        which=words(_which, trained),
        level=where(trained, excess + untrained, latest(eval_loss)),
    )


def _which(trained: bool) -> str:
    return "loss" if trained else "held-out loss"
