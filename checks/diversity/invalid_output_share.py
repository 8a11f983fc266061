import math

from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, baseline, fmax, moving_mean, previous, row, sqrt, total, where


@check(
    "DIV004",
    kind="outcome",
    severity="warning",
    invalidates=("rewards of invalid responses since step {onset}: a default was scored in their place",),
)
def invalid_output_share(
    invalid_rate: Column,
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
    The mean share of invalid or replaced responses over 10 steps: a warning above 0.1, an error above 0.3, critical
    above 0.8, where it is worse than at the run's start (median of 5 rows) by at least 0.1, and by three standard
    errors of such counts where it is known how many responses a step has; for an error by at least 0.2. Where it is
    above 0.3, not worse, but has not become 0.05 better after 40 steps either, the form is only not learnt: a warning,
    above 0.8 an error.

    ## Thresholds
    - `rows`: rows over which the share is averaged.
    - `warning_share`: share of invalid responses, 0 to 1, for a warning.
    - `error_share`: share of invalid responses, 0 to 1, for an error.
    - `critical_share`: share of invalid responses, 0 to 1, for a critical finding.
    - `rise`: rise of the share since the start that counts as worse.
    - `patience`: rows after which a form that is not learnt is told.

    ## Why it matters
    Invalid responses teach nothing but their own invalidity, and where a default answers in their place the reward
    belongs to the default. A mean over a run that alternates describes neither state: look at it by event.

    ## Known false alarms
    The first steps of a policy that still learns the form: invalid responses that become fewer are not reported. A
    form that nobody rewards may stay unlearnt while the reward rises: a warning then, and no more.

    ## Remedy
    Split the share by the preceding event (update or none), read the invalid responses, and find the mechanism:
    GEN001, LEN003 or a template (TOK001).

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
        "{share:.0%} of the responses in the last {rows} steps are invalid or were replaced by a default "
        "({start:.0%} at the start).",
        error=unpaid
        & ((grown & (share > error_share) & (share - start >= 2 * rise)) | (wrong & (share > critical_share))),
        critical=grown & (share > critical_share),
        share=share,
        start=start,
        rows=rows,
        after_update=total(where(exposed, invalid_rate, 0.0)) / total(exposed),
        otherwise=total(where(spared, invalid_rate, 0.0)) / total(spared),
    )
