from typing import Any

from grpo_doctor import Fires, fires, probe, probes


@probe("ADV014", kind="defect", severity="error")
def normaliser_not_as_declared(advantages: Any, settings: Any = None, *, limit: float = 0.01) -> Fires | None:
    """Advantages are normalised over a different scope than declared.

    ## What it sees
    The probe passes the same group to the trainer's own function twice. The rewards of a second group in the batch are
    similar in one call and widely spread in the other. If `settings["normaliser"]` or `settings["scale_rewards"]` is
    `group` or `none`, the second group must not change the advantages of the first. If the setting is `batch`, the
    second group must change them.

    ## Thresholds
    - `limit`: change in an advantage, as a share of the group's largest advantage, above which the advantage counts as
      affected by the second group.

    ## Why it matters
    If advantages are normalised over the batch, the scale of a group's update depends on the rest of its batch. If the
    declaration is wrong, comparisons with other runs attribute the results to the wrong method.

    ## Example
    ```python
    settings = {"normaliser": "group"}


    def advantages(rewards):  # (groups, responses)
        return (rewards - rewards.mean(1, keepdim=True)) / (rewards.std() + 1e-4)
    ```
    Error: The declared advantage normaliser is group, but a group's advantages change by 48% when another group's
    rewards change.

    ```python
    settings = {"normaliser": "group"}


    def advantages(rewards):  # (groups, responses)
        return (rewards - rewards.mean(1, keepdim=True)) / (rewards.std(1, keepdim=True) + 1e-4)
    ```
    No finding.

    ## What this certifies, and what it does not
    The probe certifies the scope of the normaliser, but neither the centring (ADV006) nor the size (ADV007) of the
    advantages. Without a declaration, the probe is skipped, because either scope is valid.

    ## Known false alarms
    A normaliser that is declared as `batch` and uses moving statistics may fail the probe on its first two batches.

    ## Remedy
    Declare the scope that the code uses, or change the code to the declared scope.

    ## Sources
    TRL, GRPOConfig `scale_rewards`; arXiv 2508.08221 on the two scopes.
    """
    import torch

    declared = (settings or {}).get("normaliser", (settings or {}).get("scale_rewards"))
    if isinstance(declared, bool):
        declared = "group" if declared else "none"
    if declared not in ("group", "batch", "none"):
        raise probes.NotApplicable("settings declare no normaliser (group, batch or none)")
    mine = [0.0, 0.2, 0.3, 0.7]
    beside = [0.5, 0.5, 0.4, 0.6], [0.0, 1.0, 0.0, 1.0]
    near, far = (probes.loss_trials.advantages_of(advantages, torch.tensor([mine, other]))[0] for other in beside)
    change = float((near - far).abs().max() / near.abs().max().clamp(min=1e-12))
    return fires(
        (change > limit) == (declared != "batch"),
        "The declared advantage normaliser is {declared}, but a group's advantages change by {change:.0%} when "
        "another group's rewards change.",
        declared=declared,
        change=change,
    )
