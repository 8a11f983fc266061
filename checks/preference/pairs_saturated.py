import math
from typing import Any

from grpo_doctor import Fires, check, fires
from grpo_doctor.diagnosis.wording import number
from grpo_doctor.series import Column, baseline, latest, moving_mean, row, total, where, words


@check("PRF001", vital=True, severity="info", confidence="medium", run_types=("preference",))
def pairs_saturated(
    step: Column,
    loss: Column,
    grad_norm: Column = None,
    eval_loss: Column = None,
    eval_gained: Column = None,
    *,
    left: float = 1e-3,
    rows: int = 10,
    steps: int = 8,
    lasting_share: float = 0.9,
    mostly_share: float = 0.5,
) -> Fires:
    """No pair has a gradient left: each is ranked correctly with near certainty, or has two equal responses.

    ## What it sees
    The check fires if at least 90% of the last 10 rows, or all rows of the last 8 steps, have no signal. A row has no
    signal if the loss is at most 0.001. A row also has no signal if the gradient norm is above 0, at most 0.001, and at
    most a thousandth of the first norm. For a loss of -log sigmoid(m), the gradient of a pair has the weight 1 -
    sigmoid(m). A small weight is nearly equal to the loss. At the start of training, the weight is 0.5, so 0.001 is a
    five-hundredth of the first value. A pair that has a loss but no gradient has two equal responses, whose loss is
    always ln 2. Severity is **info** if fewer than half of the rows of the run have no signal: training has finished.
    If half of the rows or more have no signal, the finding is a **warning** and an outcome. Severity stays **info** if
    the held-out loss is below its first value or the held-out accuracy has improved.

    ## Thresholds
    - `left`: loss or gradient norm up to which a row counts as having no signal.
    - `rows`: number of last rows that are examined.
    - `steps`: number of last steps that are examined if rows are several steps apart, because each row is then a mean.
    - `lasting_share`: minimum share of the last rows, 0 to 1, that must have no signal.
    - `mostly_share`: minimum share of the rows of the run, 0 to 1, that must have no signal for severity warning.

    ## Why it matters
    Steps without a gradient do not train the policy, and their other effects (weight decay, rare pairs, Adam's
    momentum) move the weights at random. A reward accuracy of 1 after a dozen updates means that the pairs were easy,
    or that something other than quality identifies the rejected response. Once all pairs are ranked correctly, the
    margin grows without bound.

    ## Example
    ```text
    loss: 0.69x11 0x10
    ```
    Info at step 20: The loss is near 0 on 10 of 21 rows. Pairs that are ranked correctly provide no further signal.

    ```text
    loss: 0.69x11 0.3x10
    ```
    No finding.

    ## Known false alarms
    If a single rule separates the pairs of a reward model, the loss is expected to reach 0. Losses of a different form
    (IPO, hinge) reach 0 once their target is met. A loss that was below 0 on any row has a different form, so its level
    is not judged.

    ## Remedy
    Find out what distinguishes the pairs. Hold out some of the pairs, stop when the held-out accuracy reaches a
    plateau, and use a tenth of the learning rate.

    ## Sources
    arXiv 2305.18290, section 4 (the weight of a pair); arXiv 2310.12036, section 4.2. A run of a tiny model in TRL on
    pairs that one word distinguishes, made for this check (`tests/data`). Endauvor/MATS, notebooks/logs_step4.csv (a
    loss of 0 and gradients of 1e-7 on 226 of 240 rows); DPO notebooks of vrudhgarg/post_training_llm and
    arashaga/reinforcement-leaning (gradients of 1e-5 at losses of 0.3 to 0.43, because 38% to 62% of the pairs have two
    equal responses).
    """
    vanished = (grad_norm > 0) & (grad_norm <= left) & (grad_norm <= left * baseline(grad_norm, 1))
    told, n = (loss <= left) | vanished, row(loss)
    apart = (step - baseline(step, 1) >= n) & (step - latest(where(told, math.nan, step)) >= steps)
    lasting = ((moving_mean(told, rows) >= lasting_share) | apart) & (total(loss < 0) == 0)
    unseen = latest(eval_loss)
    held_out = eval_gained | (unseen < baseline(eval_loss, 1)) | (unseen <= left)
    spent = lasting & (total(told) >= mostly_share * n) & ~held_out
    return fires(
        lasting,
        "The {signal} is near 0 on {told:.0f} of {rows:.0f} rows{but} provide no further signal.",
        warning=spent,
        suffered=spent,
        hold=(1, 1),
        clear=rows,
        signal=where(vanished & (loss > left), "gradient norm", "loss"),
        but=words(_but, loss, grad_norm, vanished & (loss > left)),
        told=total(told),
        rows=n,
    )


def _but(loss: float, norm: Any, equal: bool) -> str:
    if equal:
        pairs = f"{min(loss / math.log(2), 1):.0%} of the pairs"
        return f", but the loss is {number(loss)}. Probably, {pairs} have two equal responses and"
    return f"{f' and the gradient norm is {number(norm, 2)}' if norm == norm else ''}. Pairs that are ranked correctly"
