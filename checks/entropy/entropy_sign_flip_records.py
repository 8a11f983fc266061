from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, baseline, kendall_tau, total


@check(
    "ENT004",
    kind="defect",
    severity="warning",
    explains=("ENT001", "ENT002", "SHP001", "SHP002"),
    withholds={
        "entropy-bonus": "entropy falls despite the existing bonus; with a flipped sign, a larger coefficient makes "
        "it fall faster, so check the sign first"
    },
)
def entropy_sign_flip_records(
    entropy_mean: Column,
    entropy_coef: Column,
    top1_prob: Column = None,
    logit_gap: Column = None,
    entropy_loss: Column = None,
    *,
    rows: int = 12,
    tau: float = -0.6,
    rises: float = 0.4,
    strong: float = 0.05,
    error_below_share: float = 0.3,
) -> Fires:
    """Entropy falls despite a strong entropy bonus, as if the bonus had the wrong sign.

    ## What it sees
    The entropy coefficient must be at least 0.05, and above 0 on at least 8 rows. The check fires if entropy falls over
    the last 12 rows (Kendall's tau below -0.6). In addition, the logit gap or the top-1 probability must rise on the
    same rows (tau above 0.4). The policy loss is not used, because it is about 0 in on-policy training. Severity is
    warning, or error if entropy has also fallen below 30% of its first value. Severity is also error if the logged
    entropy term equals +coef x H within 5%. With the correct sign, the term in the loss is -coef x H. The check fires
    on 3 of 5 rows.

    ## Thresholds
    - `rows`: number of rows over which the trends are computed.
    - `tau`: Kendall's tau of entropy below which entropy counts as falling.
    - `rises`: Kendall's tau above which the logit gap or the top-1 probability counts as rising.
    - `strong`: minimum entropy coefficient at which a bonus should have an effect.
    - `error_below_share`: ratio of entropy to its first value below which the severity is error.

    ## Why it matters
    With a flipped sign, every step reduces entropy, and the usual remedy, a larger coefficient, makes entropy fall
    faster. In grpo-dual, the coefficient was raised from 0.2 to 6.0 although its sign was flipped.

    ## Example
    ```text
    entropy_coef: 0.05x16
    entropy_mean: 1->0.4x16
    logit_gap: 3->6x16
    ```
    Warning at step 12: Entropy falls from 1 to 0.4 nats despite an entropy coefficient of 0.05. Only a probe can
    prove a flipped sign.

    ```text
    entropy_coef: 0.05x16
    entropy_mean: 1x16
    logit_gap: 3x16
    ```
    No finding.

    ## Known false alarms
    A log cannot prove that a sign is wrong. With a small coefficient, a flipped sign looks like a normal fall in
    entropy. A missing finding therefore does not prove that the sign is correct. TRL, verl and OpenRLHF subtract coef x
    H and log `entropy_loss` = +H. A logged term counts as a loss term only if it matches coef x H and the coefficient
    is not
    1. A minus sign in the source code does not prove an error either: -H.mean() is correct if it is added to the loss.

    ## Remedy
    Run the probe ENT006 on the applied gradient. Do not raise the coefficient before the probe has passed.

    ## Sources
    BoBaCai/grpo-dual (printed loss right, applied gradient wrong); trl#5584; fault `flipped-entropy` of the engine.
    """
    bonus = (entropy_coef >= strong) & (total(entropy_coef > 0) >= 8)
    falls = kendall_tau(entropy_mean, rows) < tau
    sharper = (kendall_tau(logit_gap, rows) > rises) | (kendall_tau(top1_prob, rows) > rises)
    first = baseline(entropy_mean, 1)
    suspect = bonus & falls & sharper
    term = entropy_coef * entropy_mean
    added = (abs(entropy_loss - term) <= 0.05 * term) & (abs(entropy_coef - 1) > 0.1)
    return fires(
        suspect,
        "Entropy falls from {first:.3g} to {entropy:.3g} nats despite an entropy coefficient of {coef:.3g}. Only a "
        "probe can prove a flipped sign.",
        error=suspect & ((entropy_mean < error_below_share * first) | added),
        entropy=entropy_mean,
        first=first,
        coef=entropy_coef,
    )
