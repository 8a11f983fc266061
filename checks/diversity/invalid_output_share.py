import math

from grpo_doctor import Fires, check, fires
from grpo_doctor.diagnosis.wording import steps
from grpo_doctor.series import Column, baseline, fmax, moving_mean, previous, row, sqrt, total, where, words


@check(
    "DIV004",
    kind="outcome",
    severity="warning",
    invalidates=("rewards of invalid responses since step {onset}: a default was scored in their place",),
)
def invalid_output_share(
    invalid_rate: Column,
    step: Column,
    update_applied: Column = None,
    reward_gained: Column = None,
    groups: Column = None,
    group_size: Column = None,
    *,
    rows: int = 10,
    warning_share: float = 0.1,
    error_share: float = 0.3,
    critical_share: float = 0.8,
    rise: float = 0.1,
    patience: int = 40,
) -> Fires:
    """Many responses are invalid or were replaced by a default.

    ## What it sees
    The check averages the share of invalid or replaced responses over 10 steps. Severity is warning if the share is
    above 0.1, error above 0.3, and critical above 0.8. The share must exceed its value at the start of the run (median
    of 5 rows) by at least 0.1 (0.2 for an error). If the number of responses per step is known, the share must also
    exceed its value at the start by three standard errors. If a share above 0.3 has neither grown nor fallen by 0.05
    after 40 steps, the format is not being learned. Severity is warning for a format that is not being learned, or
    error if the share is above 0.8.

    ## Thresholds
    - `rows`: number of rows over which the share of invalid responses is averaged.
    - `warning_share`: share of invalid responses, 0 to 1, above which the severity is warning.
    - `error_share`: share of invalid responses, 0 to 1, above which the severity is error.
    - `critical_share`: share of invalid responses, 0 to 1, above which the severity is critical.
    - `rise`: minimum rise in the share since the start for a warning. For an error, the minimum rise is twice as large.
    - `patience`: number of rows after which the check reports a format that the policy does not learn.

    ## Why it matters
    From an invalid response, the policy learns only that the format is wrong. If a default replaces an invalid
    response, the reward scores the default. If a run alternates between two states, the mean describes neither state,
    so split the share by event.

    ## Example
    ```text
    fallback_rate: 0x5 0.11x20
    ```
    Warning at step 15: 11% of the responses in the last 10 steps are invalid or were replaced by a default (0% at
    the start).

    ```text
    fallback_rate: 0x5 0.05x20
    ```
    No finding.

    ## Known false alarms
    In the first steps, the policy still learns the format; a falling share is not reported. A format that is not
    rewarded may never be learned although the reward rises; severity is then at most warning.

    ## Remedy
    Compute the share separately for rollouts after an update and rollouts without one. Read the invalid responses, and
    check the causes that GEN001, LEN003 and TOK001 report.

    ## Sources
    beita6969/colab-grpo's log.
    """
    share, start = moving_mean(invalid_rate, rows), baseline(invalid_rate, 5)
    responses = groups * group_size
    chance = 3 * sqrt(share * (1 - share) / (responses * rows) + math.pi / 2 * start * (1 - start) / (responses * 5))
    grown = share >= start + fmax(chance, rise)
    wrong = grown | ((row(invalid_rate) >= patience) & (share > error_share) & (share >= start - 0.05))
    unpaid = grown | ~reward_gained
    exposed, spared = previous(update_applied) == 1, previous(update_applied) == 0
    return fires(
        wrong & (share > warning_share),
        "{share:.0%} of the responses in the last {steps} are invalid or were replaced by a default "
        "({start:.0%} at the start).",
        error=unpaid
        & ((grown & (share > error_share) & (share - start >= 2 * rise)) | (wrong & (share > critical_share))),
        critical=grown & (share > critical_share),
        share=share,
        start=start,
        steps=words(steps, rows, step - previous(step, rows - 1)),
        after_update=total(where(exposed, invalid_rate, 0.0)) / total(exposed),
        otherwise=total(where(spared, invalid_rate, 0.0)) / total(spared),
    )
