from typing import Any

from grpo_doctor import Fires, fires, probe, probes

_FAILED = ("a NaN reward in a different group", "a group with a NaN reward")


@probe("ADV013", severity="critical", explains=("GRD001", "ADV005"))
def probe_nan(advantages: Any, settings: Any = None) -> Fires | None:
    """## What this certifies, and what it does not
    The probe passes three kinds of groups to the trainer's own function: equal rewards, nearly equal rewards (1e-9
    apart) and, if `settings["group_size"]` is 1 or unknown, a single response. It also passes a batch in which one
    group contains a NaN reward. Every advantage must be finite. For groups of one response, whose standard deviation is
    NaN in torch, the severity is info if the group size is unknown. If a NaN reward spreads to its own group or to
    others, the severity is info: a reward function that returns NaN once would end the run. Rejecting the input with a
    ValueError or an assertion is also correct. The probe does not certify what the trainer does with a failing reward
    function (REW004).
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
