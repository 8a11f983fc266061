from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column, sqrt, where


@check("ADV008", kind="remark", severity="info", confidence="high")
def advantage_clip_no_op(
    group_size: Column,
    clip: Column = any_of("settings.advantage_clip", "settings.adv_clip", "settings.advantage_clip_range"),
    advantage_ddof: Column = None,
) -> Fires:
    """The advantage clip has no effect, because no advantage in a group of this size can reach it.

    ## What it sees
    The check fires if advantages are clipped at or above the largest |A| that is possible in a group of K responses.
    The largest possible |A| is (K-1)/sqrt(K) with ddof 1, and sqrt(K-1) with ddof 0 or an unknown ddof.

    ## Why it matters
    A clip without effect can be mistaken for a fix. For example, BoBaCai/grpo-dual lists a clip at 3 among its fixes
    for K = 2, where no advantage can exceed 1. A clip at 3 has an effect only for K of 11 or more.

    ## Example
    ```text
    settings.group_size: 10
    settings.adv_clip: 3.0
    ```
    Info: Advantages are clipped at 3, but groups of 10 never exceed 3.

    ```text
    settings.group_size: 16
    settings.adv_clip: 3.0
    ```
    No finding.

    ## Known false alarms
    The bound does not apply to estimators that do not divide by the group's standard deviation.

    ## Remedy
    Remove the clip, or set it below the bound to cut outliers (for example, 2.0 for K = 8).

    ## Sources
    Derived; BoBaCai/grpo-dual, options B and D.
    """
    bound = where(advantage_ddof == 1, (group_size - 1) / sqrt(group_size), sqrt(group_size - 1))
    return fires(
        (group_size >= 2) & (clip >= bound),
        "Advantages are clipped at {clip:.3g}, but groups of {k:.0f} never exceed {bound:.3g}.",
        hold=(1, 1),
        clip=clip,
        k=group_size,
        bound=bound,
    )
