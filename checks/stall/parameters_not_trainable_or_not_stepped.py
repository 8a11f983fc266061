from math import nan

from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.diagnosis.wording import number
from grpo_doctor.series import Column, fmax, isnan, latest, row, where, words


@check(
    "STL004",
    kind="defect",
    severity="error",
    confidence="medium",
    explains=("STL001", "STL006", "KL003", "GRD008", "SUP001"),
    run_types=("rl", "supervised", "preference"),
)
def parameters_not_trainable_or_not_stepped(
    grad_norm: Column,
    step: Column,
    known: Column = any_of("dead_share", "advantage_std", "advantage_max", "loss"),
    dead_share: Column = None,
    advantage_std: Column = None,
    advantage_max: Column = None,
    loss: Column = None,
    reward_mean: Column = None,
    *,
    rows: int = 8,
    dead: float = 0.5,
    least: float = 0.01,
) -> Fires:
    """Parameters get no gradient although the rewards differ.

    ## What it sees
    The check fires if the gradient norm is 0 on 8 consecutive recorded steps, although rewards differ in at least half
    of the groups. If the share of zero-variance groups is not recorded, the advantages must have a spread or a positive
    maximum instead. In supervised and preference training, the loss must be above 0.01 instead.

    ## Thresholds
    - `rows`: number of consecutive recorded steps with a gradient norm of 0 at or above which the check fires.
    - `dead`: share of zero-variance groups, 0 to 1, up to which the gradient should not be 0.
    - `least`: spread of the advantages, or supervised loss in nats, above which the gradient should not be 0.

    ## Why it matters
    Groups with differing rewards have nonzero advantages, so the gradient of a working loss is not zero. If a cross
    entropy is above 0, its gradient is also not zero. A norm of exactly 0 means that the loss does not reach the
    weights. Parameters are frozen, a log-probability is detached, or the optimizer contains other tensors.

    ## Example
    ```text
    grad_norm: 0x8
    advantage_std: 0.9x8
    ```
    Error at step 1: The gradient norm is exactly 0 on 8 steps in a row, although the advantages are not 0.

    ```text
    grad_norm: 0.3x8
    advantage_std: 0.9x8
    ```
    No finding.

    ## Known false alarms
    A logger may round small norms to 0, or a library may never measure the norm (modelscope/ms-swift#5890).

    ## Remedy
    Run one backward pass and check the gradients.

    ## Sources
    huggingface/trl#6700 (the adapter was loaded frozen), #3926 (a second preparation for k-bit training froze the
    adapter). In huggingface/trl#3857, all groups have zero variance, so a grad_norm of 0.0 is expected.
    """
    spread = fmax(advantage_std, advantage_max) > least
    supervised = isnan(reward_mean) & isnan(dead_share) & isnan(fmax(advantage_std, advantage_max))
    signal = where(isnan(dead_share), where(supervised, loss > least, spread), dead_share <= dead)
    still, n = (grad_norm == 0) & signal, row(grad_norm)
    before = latest(where(still, nan, n))
    lasted = n - where(isnan(before), 0, before)
    return fires(
        lasted >= rows,
        "The gradient norm is exactly 0 on {lasted:.0f} steps in a row, although {signal}.",
        hold=(1, 1),
        onset=latest(where(lasted == 1, step, nan)),
        lasted=lasted,
        signal=words(_signal, dead_share, supervised, loss),
    )


def _signal(dead: float, supervised: float, loss: float) -> str:
    if supervised:
        return f"the loss is {number(loss)}"
    return f"rewards differ in {1 - dead:.0%} of the groups" if dead == dead else "the advantages are not 0"
