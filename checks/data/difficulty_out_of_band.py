from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, homogeneous, moving_mean


@check("DAT001", severity="warning", confidence="medium", explains=("ADV003", "ADV012", "STL001"))
def difficulty_out_of_band(
    groups: Column,
    all_correct_groups: Column,
    all_wrong_groups: Column,
    group_size: Column,
    *,
    rows: int = 20,
    settled_share: float = 0.6,
    each_side: float = 0.15,
    excess: float = 0.2,
    least_group: int = 4,
) -> Fires:
    """Most prompts are either always solved or never solved.

    ## What it sees
    Over the last 20 steps, the check counts groups in which all responses are correct and groups in which all responses
    are wrong. The check fires if both kinds together make up more than 60% of the groups, and each kind at least 15%.
    The combined share must also be more than 20 percentage points above the share expected at uniform difficulty. The
    expected share is p^K + (1-p)^K for K responses per prompt at a mean success rate of p. Groups of fewer than 4
    responses are not judged, because their rewards are often equal at any difficulty.

    ## Thresholds
    - `rows`: number of rows over which groups are counted.
    - `settled_share`: combined share of all-correct and all-wrong groups, 0 to 1, above which the check fires.
    - `each_side`: minimum share of all-correct groups, and minimum share of all-wrong groups, 0 to 1.
    - `excess`: difference between the combined share and the share expected at uniform difficulty, 0 to 1, above which
      the check fires.
    - `least_group`: number of responses per prompt below which groups are not judged.

    ## Why it matters
    Groups with all responses correct or all wrong contribute no gradient. Most of the batch is wasted, and the few
    remaining prompts determine the step.

    ## Example
    ```text
    groups: 20x24
    group_size: 8x24
    all_correct_groups: 6x24
    all_wrong_groups: 7x24
    ```
    Warning at step 20: 30% of the prompts are always solved and 35% are never solved, so few prompts have a signal. At
    uniform difficulty, both shares together would be 1%.

    ```text
    groups: 20x24
    group_size: 8x24
    all_correct_groups: 2x24
    all_wrong_groups: 2x24
    ```
    No finding.

    ## Known false alarms
    Late in training, the share of solved prompts grows in every run; the check therefore requires unsolved prompts too.

    ## Remedy
    Keep prompts with a success rate between 0.05 and 0.95 over 8 samples, or resample until enough groups have
    differing rewards.

    ## Sources
    arXiv 2503.14476 (dynamic sampling, AIME24 42 → 50). arXiv 2509.21880.
    """
    right = moving_mean(all_correct_groups / groups, rows)
    wrong = moving_mean(all_wrong_groups / groups, rows)
    tied = right + wrong
    middle = right + (1 - tied) / 2
    expected = homogeneous(middle, group_size)
    return fires(
        (tied > settled_share)
        & (right >= each_side)
        & (wrong >= each_side)
        & (tied > expected + excess)
        & (group_size >= least_group),
        "{right:.0%} of the prompts are always solved and {wrong:.0%} are never solved, so few prompts have a signal. "
        "At uniform difficulty, both shares together would be {expected:.0%}.",
        right=right,
        wrong=wrong,
        expected=expected,
    )
