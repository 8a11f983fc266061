from typing import Any

from grpo_doctor import Fires, fires, probe, probes


@probe("ADV007", severity="error")
def probe_bound(advantages: Any, *, rounding: float = 1e-2) -> Fires | None:
    """## What the probe does
    The probe calls the trainer's own function with groups in which one response wins (rewards 0, ..., 0, 1 for K = 2 to
    16). For any ddof, a group-normalised advantage is at most sqrt(K - 1). An advantage that is centred but not scaled
    is at most 1.

    ## What this certifies, and what it does not
    The probe certifies that advantages are not too large; ADV004 covers advantages that are too small.

    ## Thresholds of the probe
    - `rounding`: maximum excess of |A| over the bound, as a share of the bound, that counts as rounding.
    """
    import torch

    worst, at, bound, crafted = 0.0, 2, 1.0, ""
    for k in (2, 4, 8, 16):
        for groups in (1, 3):
            rewards = torch.zeros(groups, k)
            rewards[:, 0] = 1.0
            size = float(probes.loss_trials.advantages_of(advantages, rewards).abs().max())
            if size / (k - 1) ** 0.5 > worst:
                worst, at, bound = size / (k - 1) ** 0.5, k, (k - 1) ** 0.5
                crafted = probes.saved_cases.as_code("advantages", rewards)
    return fires(
        not worst <= 1 + rounding,
        "With {at} responses per group, an advantage of {size:.3g} exceeds {bound:.3g}, the maximum after group "
        "normalisation.",
        at=at,
        size=worst * bound,
        bound=bound,
        crafted=crafted,
    )
