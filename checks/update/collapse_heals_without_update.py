from grpo_doctor import Fires, check, fires
from grpo_doctor.series import COLLAPSED, Column, previous, total

_WHY = "the collapse disappears without any change in the weights"


@check(
    "UPD003",
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
def collapse_heals_without_update(
    update_applied: Column,
    invalid_rate: Column,
    *,
    least_ends: int = 3,
    ended_share: float = 0.8,
) -> Fires:
    """Collapsed rollouts recover without any change in the weights.

    ## What it sees
    A collapse ends if a step with at least 90% invalid responses is followed by a step with a lower share. The check
    fires if at least three collapses, and at least 80% of all ended collapses, ended without an update.

    ## Thresholds
    - `least_ends`: minimum number of collapses that ended without an update.
    - `ended_share`: minimum share of collapses that ended without an update among all ended collapses, 0 to 1.

    ## Why it matters
    Weights that have collapsed do not recover by themselves. If a rollout recovers without an update, the cause is not
    in the weights. Possible causes are train or eval mode, the KV cache, an adapter, the rollout engine, or the mix of
    prompts. No learning rate, group size or advantage can be the cause.

    ## Example
    ```text
    update_applied: 1 0 1 0 1 0 1
    valid_rate: 1 0 1 0 1 0 1
    ```
    Error at step 7: 3 of 3 collapses ended without any change in the weights, so the cause is the generation state, not
    the weights.

    ```text
    update_applied: 1 0 1 0 1 0 1
    valid_rate: 0.95x7
    ```
    No finding.

    ## Known false alarms
    A log may mark updates incorrectly, for example if accumulation steps are logged as updates. With a very unequal mix
    of tasks, the share of invalid responses depends on the batch.

    ## Remedy
    Run the probes of the generation state, GEN001 and GEN002. Do not change the optimisation.

    ## Sources
    beita6969/colab-grpo's log: of 27 collapses, 26 ended directly after a step without an update, and the log ends
    during the 27th.
    """
    collapsed = invalid_rate >= COLLAPSED
    was = previous(collapsed) == 1
    healed = was & (collapsed == 0)
    alone = healed & (previous(update_applied) == 0)
    ended, without = total(healed), total(alone)
    return fires(
        (without >= least_ends) & (without >= ended_share * ended),
        "{without} of {ended} collapses ended without any change in the weights, so the cause is the generation "
        "state, not the weights.",
        hold=(1, 1),
        ended=ended,
        without=without,
    )
