from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.diagnosis.wording import number
from grpo_doctor.series import (
    Column,
    baseline,
    best,
    kendall_tau,
    known_median,
    latest,
    lowest,
    moving_min,
    recent_mean,
    words,
)


@check(
    "KL002",
    severity="warning",
    confidence="medium",
    explains=("DIV004", "LEN001", "REW001", "REW009", "REW015", "STL001", "STL006"),
)
def kl_dominates_objective(
    known: Column = any_of("kl_grad_share", "kl_loss_share", "reward_after_kl"),
    kl_grad_share: Column = None,
    kl_loss_share: Column = None,
    kl: Column = None,
    reward_after_kl: Column = None,
    length: Column = any_of("response_length_mean", optional=True),
    reward_min: Column = None,
    reward_max: Column = None,
    reward_gained: Column = None,
    *,
    warn: float = 0.5,
    bad: float = 0.8,
    value: float = 0.8,
    back: float = 0.9,
) -> Fires:
    """The KL term outweighs the reward, so updates pull the policy back to the reference model.

    ## What it sees
    The check uses the KL term's share of the gradient norm (the median of the last three recorded values). Severity is
    warning if the median share is above 0.5, and error if it is above 0.8 in a run whose reward has not improved. If
    only the KL term's share of the loss value is recorded, the severity is at most warning. A warning from the loss
    value requires three consecutive shares above 0.8. In addition, the KL must fall below 90% of its highest value, and
    the reward must not have improved.

    If the reward is recorded before and after a KL penalty is subtracted, the check compares the two. Severity is
    warning if the mean of the last five rewards after the penalty is above the first by more than the range of single
    rewards, and the reward before the penalty has not improved. Such a rise can only come from a smaller penalty.

    ## Thresholds
    - `warn`: share of the KL term in the gradient norm, 0 to 1, above which the severity is warning.
    - `bad`: share of the KL term in the gradient norm, 0 to 1, above which the severity is error.
    - `value`: share of the KL term in the value of the loss, 0 to 1, above which the severity is warning.
    - `back`: ratio of the KL to its highest value below which the KL counts as fallen.

    ## Why it matters
    If beta is too large, or a floor on the standard deviation has made the advantages small, each update mostly undoes
    the previous one. The KL falls while the reward plateaus, as in the built-in engine with a beta of 10 (fault
    `kl-dominates`).

    ## Example
    ```text
    kl_grad_share: 0.8x3
    ```
    Warning at step 3: The KL term contributes 80% of the gradient norm, so updates pull the policy back to the
    reference model.

    ```text
    kl_grad_share: 0.3x3
    ```
    No finding.

    ```text
    reward_mean: -0.7x10
    reward_after_kl: -14x2 -2x8
    reward_min: -1x10
    reward_max: 1x10
    response_length_mean: 970x2 9x8
    ```
    Warning at step 5: The KL penalty in the reward fell, but the reward itself did not improve: the reward after the
    penalty rose from -14 to -2 (970 tokens per response at the start, 9 now).

    ## Known false alarms
    The KL term's share of the loss value proves nothing by itself. In on-policy training, the policy loss is 0 by
    construction (mean A = 0, ratio = 1), but its gradient is not. For example, "KL is 92% of the loss" in
    yunsoft2019/Lever-Plus is 0.0111 / 0.0120. Within one TRL run, the same beta gave shares of 0.003 and 0.9994 of the
    loss value, and 0.0003 and 0.001 of the gradient norm. While the KL is near 0 (steps 1 to 10), the share of the
    gradient norm is noisy, so the check uses the median of three values.

    ## Remedy
    Fix ADV004 first. Divide beta by three until the KL term's share of the gradient norm is below 0.3. Do not remove
    the KL term: without it, the run of yunsoft2019/Lever-Plus reached a KL of 17.

    ## Sources
    huggingface/trl#2703, #3452; faults `kl-dominates` and `std-floor` of the engine; yunsoft2019/Lever-Plus.
    """
    share, weight = known_median(kl_grad_share, 3), latest(kl_loss_share)
    falls = (kendall_tau(kl, 3) <= -1) & (kl < back * best(kl))
    by_value = ~(share == share) & (moving_min(weight, 3) > value) & falls & ~reward_gained
    first, now = baseline(reward_after_kl, 1), recent_mean(reward_after_kl)
    avoided = (now - first > best(reward_max) - lowest(reward_min)) & ~reward_gained
    return fires(
        (share > warn) | by_value | avoided,
        "The KL {has}.",
        hold=(1, 1),
        error=(share > bad) & ~reward_gained,
        has=words(_has, share, weight, best(kl), kl, first, now, avoided, baseline(length, 1), recent_mean(length)),
        share=share,
        weight=weight,
        kl=kl,
    )


PULLED = "so updates pull the policy back to the reference model"


def _has(
    share: float,
    weight: float,
    highest: float,
    kl: float,
    first: float,
    now: float,
    avoided: bool,
    begun: float,
    length: float,
) -> str:
    if avoided:
        tokens = (
            f" ({number(begun, 4)} tokens per response at the start, {number(length)} now)" if length == length else ""
        )
        return (
            "penalty in the reward fell, but the reward itself did not improve: the reward after the penalty rose from "
            f"{number(first)} to {number(now)}{tokens}"
        )
    if share == share:
        return f"term contributes {share:.0%} of the gradient norm, {PULLED}"
    return (
        f"term is {weight:.0%} of the loss value (weak evidence: in on-policy training, the policy loss is 0 by "
        f"construction) and the KL falls from {number(highest)} to {number(kl)}, {PULLED}"
    )
