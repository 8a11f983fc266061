from grpo_doctor import Fires, check, fires, once_known
from grpo_doctor.diagnosis.wording import counted
from grpo_doctor.series import COLLAPSED, HEALTHY, Column, previous, total, words

_WHY = "a rollout collapsed after an update that changed no weight"


@check(
    "UPD007",
    kind="defect",
    severity="error",
    confidence="medium",
    explains=("DIV004", "REW009", "REW015"),
    withholds={
        "lower-learning-rate": f"{_WHY}, so the step size is not the cause",
        "raise-group-size": f"{_WHY}, so advantages are not the cause",
        "drop-std-normalisation": f"{_WHY}, so advantages are not the cause",
    },
)
def collapse_after_zero_step(
    update_applied: Column,
    invalid_rate: Column,
    size: Column = once_known("weight_delta", "learning_rate", "grad_norm"),
    learning_rate: Column = None,
    grad_norm: Column = None,
    weight_delta: Column = None,
) -> Fires:
    """A rollout collapsed right after an update that did not change the weights.

    ## What it sees
    The check fires if at least 90% of the responses of a rollout are invalid although the previous rollout was healthy.
    The learning rate, gradient norm or weight change of the update between the two rollouts was exactly 0. A linear
    warm-up gives the first update of most runs a learning rate of 0.

    ## Why it matters
    An update without a change in the weights is a control experiment: the weights stay the same, but the output
    changes. No property of the optimisation (learning rate, group size, advantages, KL) can therefore be the cause.

    ## Example
    ```text
    update_applied: 0 1 0 0
    learning_rate: ? 0 ? ?
    valid_rate: 1 1 0 1
    ```
    Error at step 3: The rollout collapsed after 1 update that did not change the weights, so optimisation is not the
    cause.

    ```text
    update_applied: 0 1 0 0
    learning_rate: ? 1e-6 ? ?
    valid_rate: 1 1 1 1
    ```
    No finding.

    ## Known false alarms
    The gradient norm may have been rounded to 0.0. The prompts of a single batch may cause a collapse.

    ## Remedy
    Check the other effects of an update: the mode of the model, gradient checkpointing, the transfer of weights
    (GEN001, GEN002).

    ## Sources
    beita6969/colab-grpo's log: the update at step 4 has a learning rate of 0, and all 6 responses of step 5 are
    fallbacks. Two earlier runs behave in the same way at step 2.
    """
    healthy, collapsed = invalid_rate <= HEALTHY, invalid_rate >= COLLAPSED
    still = (learning_rate == 0) | (grad_norm == 0) | (weight_delta == 0)
    placebo = (previous(update_applied) == 1) & (previous(still) == 1) & (previous(healthy) == 1)
    happened = total(placebo & collapsed)
    return fires(
        happened > 0,
        "The rollout collapsed after {updates} that did not change the weights, so optimisation is not the cause.",
        hold=(1, 1),
        updates=words(lambda n: counted(int(n), "update"), happened),
        times=happened,
    )
