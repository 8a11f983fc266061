from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column, is_any, isnan, rms_on_ties, where


@check(
    "ADV005", kind="defect", severity="warning", confidence="medium", explains=("REW009", "REW015", "STL001", "STL006")
)
def rank_normalisation_on_ties(
    advantage_std: Column,
    dead_share: Column,
    groups: Column,
    group_size: Column,
    advantage_rms_live: Column = None,
    advantage_mean: Column = None,
    advantage_max: Column = None,
    advantage_min: Column = None,
    normaliser: Column = any_of("settings.normaliser", optional=True),
    *,
    noise: float = 0.3,
    error_tied_share: float = 0.5,
) -> Fires:
    """Rank normalisation gives tied rewards different advantages, so zero-variance groups push the policy at random.

    ## What it sees
    The root-mean-square advantage of zero-variance groups should be 0. The check solves mean(A^2) = (1 - z) x
    rms_live^2 + z x rms_tied^2 for rms_tied, where z is the share of zero-variance groups. The check fires if this root
    mean square is above 0.3 on 3 of 5 rows and the advantages are ranks. Advantages are ranks if the run declares
    `normaliser = rank`, or if they reach exactly -1 and 1 in groups of more than two. Severity is error while more than
    half of the groups have zero variance.

    ## Thresholds
    - `noise`: root-mean-square advantage of zero-variance groups above which ties count as ranked at random.
    - `error_tied_share`: share of zero-variance groups, 0 to 1, above which the severity is error.

    ## Why it matters
    `argsort(argsort(r))` breaks ties by position: a zero-variance group gets advantages from -1 to 1 that are unrelated
    to its responses. While most groups have differing rewards, random ranks cost little (a final score of 0.61 instead
    of 0.63). Once most groups have zero variance, random ranks destroy the policy; z-scores do not.

    ## Example
    ```text
    settings.normaliser: rank
    settings.group_size: 8
    settings.groups: 8
    advantage_std: 0.66x3
    zero_variance_groups: 8x3
    ```
    Error at step 1: Zero-variance groups (100% of all groups) have a root-mean-square advantage of 0.65 instead of 0:
    ranking breaks their ties at random.

    ```text
    settings.normaliser: rank
    settings.group_size: 8
    settings.groups: 8
    advantage_std: 0x3
    zero_variance_groups: 8x3
    ```
    No finding.

    ## Known false alarms
    The check needs the number of groups and the standard deviation of the advantages over the whole batch. Rounding in
    logs distorts the computed root mean square, so the limit of 0.3 is generous: index ranks of eight responses give
    0.65. Contrary to a published claim, ranks cannot compress advantages to 0.006: untied ranks in [-1, 1] have a
    standard deviation of sqrt((n+1)/(3(n-1))) > 0.577.

    ## Remedy
    Use average ranks for ties and advantages of 0 for zero-variance groups, or use z-scores.

    ## Sources
    Derived; yunsoft2019/Lever-Plus and its follow-up report; fault `rank-advantages` of
    the engine.
    """
    tied = rms_on_ties(
        advantage_std,
        where(isnan(advantage_mean), 0.0, advantage_mean),
        advantage_rms_live,
        dead_share,
        groups * group_size,
    )
    declared = is_any(normaliser, "rank")
    exact = (abs(advantage_max - 1) < 1e-3) & (abs(advantage_min + 1) < 1e-3) & (group_size > 2)
    noisy = (declared | exact) & (tied > noise)
    return fires(
        noisy,
        "Zero-variance groups ({dead:.0%} of all groups) have a root-mean-square advantage of {tied:.2f} instead of 0: "
        "ranking breaks their ties at random.",
        error=noisy & (dead_share > error_tied_share),
        dead=dead_share,
        tied=tied,
    )
