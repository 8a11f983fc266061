from typing import Any

from grpo_doctor import Fires, fires, probe, probes


@probe("ADV005", severity="error")
def probe_ties(advantages: Any, *, limit: float = 1e-2, rounded_limit: float = 1.0) -> Fires | None:
    """## What the probe does
    The probe calls the trainer's own function with groups of 2 to 16 responses. All rewards of a group are equal (0,
    0.1, 0.5 or 1), or one half of the rewards is 0.3 and the other half is 0.7. Groups with equal rewards must get
    advantages of 0, and equal rewards within a group must get equal advantages. Float32 rounding errors of up to 0.01
    are accepted.

    Float32 cannot represent 0.1 exactly. If only groups with rewards of 0.1 fail, the formula is therefore correct, but
    its epsilon is too small. Severity is warning for such a rounding error if advantages are at most 1. An epsilon of
    1e-8 gives an advantage of 0.75.

    ## What this certifies, and what it does not
    The probe certifies only the handling of ties; ADV006 covers centring, and ADV007 covers size.

    ## Thresholds of the probe
    - `limit`: maximum |A| of zero-variance groups, or maximum difference in A between equal rewards, that counts as
      rounding.
    - `rounded_limit`: maximum |A| for severity warning if only groups with rewards of 0.1 exceed `limit`.
    """
    import torch

    def error(rewards: Any) -> float:
        found = probes.loss_trials.advantages_of(advantages, rewards)
        if bool((rewards == rewards[0, 0]).all()):
            return float(found.abs().max())
        return max(float((half.amax(1) - half.amin(1)).max()) for half in found.chunk(2, 1))

    sizes = (2, 4, 8, 16)
    given = [[torch.full((3, k), value) for k in sizes for value in (0.0, 0.5, 1.0)]]
    given += [[torch.full((3, k), 0.1) for k in sizes]]
    given += [[torch.tensor([[0.3] * (k // 2) + [0.7] * (k - k // 2)] * 2) for k in sizes]]
    worst = [max(((error(rewards), rewards) for rewards in some), key=lambda pair: pair[0]) for some in given]
    tied, rounded, partly = (largest for largest, _ in worst)
    crafted = probes.saved_cases.as_code("advantages", max(worst, key=lambda pair: pair[0])[1])
    if max(tied, partly) <= limit < rounded <= rounded_limit:
        return fires(
            True,
            "Groups with all rewards at 0.1 get advantages of up to {rounded:.3g}. A rounding error is divided by a "
            "standard deviation of 0, and epsilon is too small.",
            warning=True,
            rounded=rounded,
            crafted=crafted,
        )
    return fires(
        not max(tied, rounded, partly) <= limit,
        "Zero-variance groups get advantages of up to {tied:.3g}, and equal rewards within a group get advantages "
        "that differ by up to {partly:.3g}.",
        tied=max(tied, rounded),
        partly=partly,
        crafted=crafted,
    )
