from typing import Any

from grpo_doctor import Fires, fires, probe, probes

_FAILED = ("a NaN reward in a different group", "a group with a NaN reward")


@probe("ADV013", severity="critical", explains=("GRD001", "ADV005"))
def probe_nan(advantages: Any, settings: Any = None) -> Fires | None:
    """## What the probe does
    The probe calls the trainer's own function with equal rewards, with rewards that are 1e-9 apart, and with a NaN
    reward in one group. If `settings["group_size"]` is 1 or unknown, the probe also passes groups of one response.
    Every advantage must be finite. A ValueError or an assertion error is also accepted.

    In torch, the standard deviation of one response is NaN. If the group size is unknown, the severity of such a NaN is
    info. Severity is also info if a NaN reward makes advantages NaN, in the same group or in other groups. If
    advantages become NaN, a reward function that returns NaN once ends the run.

    ## What this certifies, and what it does not
    The probe certifies that the advantages of these groups are finite. The probe does not certify how the trainer
    handles a reward function that fails (REW004).
    """
    import torch

    bad: list[str] = []
    size = (settings or {}).get("group_size")
    ones = {"a group of one response": torch.tensor([[0.5]]), "groups of one response": torch.tensor([[0.5], [1.0]])}
    cases = {
        "tied rewards": torch.ones(2, 4),
        "rewards 1e-9 apart": torch.tensor([[0.5, 0.5 + 1e-9, 0.5, 0.5]], dtype=torch.float64),
        **(ones if size in (None, 1) else {}),
        **{name: torch.tensor([[float("nan"), 1.0, 0.0, 0.0], [0.0, 1.0, 0.0, 1.0]]) for name in _FAILED},
    }
    for name, rewards in cases.items():
        try:
            found = probes.loss_trials.advantages_of(advantages, rewards)
        except (ValueError, AssertionError):
            continue
        judged = found[0] if name == _FAILED[1] else found[-1]
        if not bool(judged.isfinite().all()):
            bad.append(name)
    mild = {*_FAILED, *(ones if size is None else ())}
    return fires(
        bool(bad),
        "Advantages are NaN or infinite for {cases}.",
        info=bool(bad),
        critical=bool(set(bad) - mild),
        cases=", ".join(bad),
        crafted=probes.saved_cases.as_code("advantages", cases[bad[0]]) if bad else "",
    )
