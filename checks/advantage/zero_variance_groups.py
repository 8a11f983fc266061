from grpo_doctor import Fires, check, fires
from grpo_doctor.stats import Column, homogeneous, moving_mean


@check(
    "ADV003",
    severity="warning",
    explains=("STL001", "GRD003", "ADV012"),
    remedies=("filter-dead-groups", "temperature-one", "raise-group-size"),
)
def zero_variance_groups(
    dead_share: Column,
    reward_mean: Column,
    group_size: Column = None,
    *,
    rows: int = 10,
    warn: float = 0.5,
    bad: float = 0.8,
    solved: float = 0.9,
) -> Fires:
    """Most groups have rewards that are all equal, so they carry no gradient.

    ## What it sees
    x
    ## Why it matters
    x
    ## Known false alarms
    x
    ## Remedy
    x
    ## Sources
    x
    """
    dead = moving_mean(dead_share, rows)
    reward = moving_mean(reward_mean, rows)
    return fires(
        (dead > warn) & (reward < solved),
        "{share:.1%} of the groups have rewards that are all equal.",
        error=(dead > bad) & (reward < solved),
        share=dead,
        expected=homogeneous(reward, group_size),
    )
