from typing import Any

from grpo_doctor import Fires, fires, probe, probes


@probe("ADV006", severity="error", explains=("ADV005", "ADV007", "ADV013"))
def probe_centring(advantages: Any, *, limit: float = 0.05) -> Fires | None:
    """## What the probe does
    The probe passes groups with very different mean rewards to the trainer's own function. In every group, the mean
    advantage must be 0 (within 5% of the largest |A|), and the advantages must rise with the rewards. At least one
    advantage of each group must differ from 0.

    ## What this certifies, and what it does not
    The probe certifies grouping and centring for complete groups in order. The probe does not certify the scale of the
    advantages. Whether the trainer passes complete groups in order is checked only in the log.

    ## Thresholds of the probe
    - `limit`: maximum absolute mean advantage of a group that counts as centred, as a share of the group's largest |A|.
    """
    import torch

    rewards = torch.tensor([[0.0, 0.1, 0.3, 0.2], [0.9, 1.0, 0.7, 0.8], [0.5, 0.5, 0.0, 1.0]])
    found = probes.loss_trials.advantages_of(advantages, rewards)
    size = float(found.abs().max())
    if size == 0:
        raise probes.Unjudged("every advantage is 0; see ADV004")
    off = float(found.mean(1).abs().max()) / size
    order = rewards[:, :, None] - rewards[:, None, :]
    backwards = int(((found[:, :, None] - found[:, None, :]) * order < -1e-6).sum())
    lost = int((found.abs().amax(1) == 0).sum())
    return fires(
        not off <= limit or backwards > 0 or lost > 0,
        "The mean advantage of a group differs from 0 by {off:.0%} of the largest advantage. Response pairs whose "
        "advantages contradict their rewards: {backwards}. Groups with only zero advantages: {lost} of 3.",
        off=off,
        backwards=backwards,
        lost=lost,
    )
