from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column, Pairs, collapse, each, fisher, fold, isnan, maximum, previous, row, total, where


@check("UPD001", kind="defect", severity="warning", confidence="medium", explains=("DIV004", "REW009", "REW015"))
def update_collapse_association(
    update_applied: Column,
    judged: Column = any_of("invalid_rate", "reward_mean"),
    invalid_rate: Column = None,
    reward_mean: Column = None,
    *,
    p_value: float = 0.01,
    least_exposed: int = 5,
    risk_ratio: float = 3.0,
    error_difference: float = 0.5,
) -> Fires:
    """Rollouts collapse after updates but not after steps without an update.

    ## What it sees
    The check counts the transitions from one step to the next in a 2 × 2 table: update or no update, collapse or no
    collapse. A rollout counts as collapsed if at least 90% of its responses are invalid, or if its reward is near the
    lowest of the run. A rollout counts as healthy if at most half of its responses are invalid. Only transitions from a
    healthy step count for the test. Without this restriction, a rule that skips updates at low rewards would produce
    the same table. The check fires if three conditions hold. Fisher's one-sided p must be below 0.01 over at least 5
    transitions with an update. The relative risk must be 3 or more. A circular-shift permutation test of the updates
    must give a p of at most 0.05, or of 1/(n-1), the smallest possible value. Severity is **error** if the risks with
    and without an update differ by 0.5 or more.

    ## Thresholds
    - `p_value`: one-sided p-value of Fisher's test below which the check fires.
    - `least_exposed`: minimum number of transitions after an update.
    - `risk_ratio`: minimum factor by which updates raise the risk of a collapse.
    - `error_difference`: minimum difference between the risks with and without an update, 0 to 1, for severity error.

    ## Why it matters
    The finding shows that the cause acts at the update, but not what the cause is. Compare how often a collapse follows
    an update and how often it follows a step without an update. Even a clear difference is only an association. Read
    UPD003, UPD007 and GEN001 before changing any hyper-parameter.

    ## Example
    ```text
    update_applied: 1 0 1 0 1 0 1 0 1 0 0x6
    fallback_rate: 0 1 0 1 0 1 0 1 0 1 0x6
    ```
    Error at step 15: A collapsed rollout followed 5 of 5 updates, but only 0 of 10 steps without an update. Among
    transitions from healthy steps, the counts are 5 of 5 and 0 of 5 (Fisher p = 0.004).

    ```text
    update_applied: 1 0 1 0 1 0 1 0 1 0 0x6
    fallback_rate: 0.05x16
    ```
    No finding.

    ## Known false alarms
    A run that updates on every step is not judged, because there are no other steps to compare with. If a trainer skips
    updates *because* rollouts are bad, only transitions from healthy steps prevent a false alarm.

    ## Remedy
    First check GEN001 (generation mode) and GEN002 (weights of the rollout engine), then the step size. A lower
    learning rate, a larger group or other advantages help only if the collapse grows with the size of the step.

    ## Sources
    beita6969/colab-grpo and its log (38 updates, 37 collapses; the document blames K=2, but the log points to the
    generation mode).
    """
    healthy, collapsed = collapse(invalid_rate, reward_mean)
    known = (judged == judged) & ~isnan(previous(judged))
    exposed = known & (previous(update_applied) == 1)
    spared = known & (previous(update_applied) == 0)
    from_health = previous(healthy) == 1
    after, after_else = total(exposed & collapsed), total(spared & collapsed)
    updates, others = total(exposed), total(spared)
    hit, at_risk = total(exposed & from_health & collapsed), total(exposed & from_health)
    hit_else, at_risk_else = total(spared & from_health & collapsed), total(spared & from_health)
    p = each(fisher, hit, at_risk - hit, hit_else, at_risk_else - hit_else)
    shift = fold(Pairs.shift_p, Pairs, known, previous(update_applied), collapsed, p < p_value)
    ratio = (hit + 0.5) / (at_risk + 1) / ((hit_else + 0.5) / (at_risk_else + 1))
    difference = hit / at_risk - hit_else / at_risk_else
    unlikely = shift <= maximum(0.05, 1 / (updates + others - 1))
    found = (at_risk >= least_exposed) & (p < p_value) & (ratio >= risk_ratio) & unlikely
    return fires(
        found,
        "A collapsed rollout followed {collapses} of {exposed} updates, but only {collapses_else} of {unexposed} steps "
        "without an update. Among transitions from healthy steps, the counts are {hit} of {at_risk} and "
        "{hit_else} of {at_risk_else} (Fisher p = {p:.2g}).",
        hold=(1, 1),
        error=found & (difference >= error_difference),
        steps=row(judged),
        updates=total(update_applied),
        collapses=after,
        exposed=updates,
        collapses_else=after_else,
        unexposed=others,
        hit=hit,
        at_risk=at_risk,
        hit_else=hit_else,
        at_risk_else=at_risk_else,
        p=p,
        shift_p=shift,
        risk_ratio=ratio,
        risk_difference=difference,
        invalid_after_update=total(where(exposed, invalid_rate, 0.0)) / updates,
        invalid_otherwise=total(where(spared, invalid_rate, 0.0)) / others,
    )
