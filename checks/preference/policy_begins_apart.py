from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column, baseline, is_any, maximum


@check(
    "PRF004",
    kind="risk",
    severity="warning",
    confidence="medium",
    run_types=("preference",),
    invalidates=("rewards, margins and the effect of beta: the run did not start from the reference model",),
)
def policy_begins_apart(
    chosen_reward: Column,
    rejected_reward: Column,
    chosen_logp: Column,
    step: Column,
    rows_are: Column = any_of("settings.rows", optional=True),
    epoch: Column = None,
    *,
    apart: float = 5.0,
    into: float = 0.1,
) -> Fires:
    """Implicit rewards are not 0 on the first row, so the policy differs from the reference model.

    ## What it sees
    The check uses the larger of the two implicit rewards on the first row of the run. The first row must be step 0 or 1
    and at most a tenth of an epoch into the run. The check does not judge rows without a step number, or rows that are
    numbered by epoch. The check fires at a reward of 5 or above. At a beta of 0.1, a response with a reward of 5 is
    e^50 times as likely under the policy as under the reference model. Log-probabilities must also be recorded,
    because their presence shows that the rewards come from a reference model.

    ## Thresholds
    - `apart`: implicit reward of the first row, in the units of the loss, at or above which the check fires.
    - `into`: fraction of an epoch after which a row no longer counts as the first row.

    ## Why it matters
    Before the first update, policy and reference model are the same model. For identical models, every reward and every
    margin is 0 and the loss is ln 2, by identity (arXiv 2305.18290, equation 7). Rewards that start at a different
    value measure the distance to a different model. With a wrong reference model, the loss starts above or below ln 2
    by chance. The gradient of the loss weights pairs by the effect of the supervised stage, and beta pulls the policy
    towards the wrong reference model.

    ## Example
    ```text
    chosen_reward: 7 6 8
    rejected_reward: 9.25 7 6
    chosen_logp: -300 -310 -290
    ```
    Warning at step 1: The implicit reward is 9.25 on the first row; it should be 0, because the policy starts as
    the reference model.

    ```text
    chosen_reward: 0 0.1 0.2
    rejected_reward: 0 -0.1 -0.2
    chosen_logp: -300 -310 -290
    ```
    No finding.

    ## Known false alarms
    Trainers without a reference model (ORPO, SimPO, CPO) log their own log-probabilities as rewards. Log-probabilities
    are negative, and negative rewards are not reported. The scores of a reward model are logged without
    log-probabilities, so they are not judged.

    ## Remedy
    Print the loss of the first batch before any update: it must be 0.6931. Merge the adapter of a supervised stage, and
    let both models score the same ids.

    ## Sources
    huggingface/trl#1236 (rewards of 10 on both sides on the first step, and losses from 0.07 to 4.3).
    """
    first = baseline(maximum(chosen_reward, rejected_reward), 1)
    begins = (baseline(step, 1) <= 1) & ~(baseline(epoch, 1) > into) & ~is_any(rows_are, "epochs", "unnumbered")
    return fires(
        begins & (first >= apart) & (chosen_logp == chosen_logp),
        "The implicit reward is {first:.3g} on the first row; it should be 0, because the policy starts as the "
        "reference model.",
        hold=(1, 1),
        clear=1,
        onset=baseline(step, 1),
        first=first,
    )
