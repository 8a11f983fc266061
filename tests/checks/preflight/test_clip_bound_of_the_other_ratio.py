from typing import Any

import pytest

from tests.preflight.as_judged import find, run_check


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"epsilon": 0.2, "importance_sampling_level": "sequence"},
            "The clip bound (0.2) never clips a sequence-level ratio.",
        ),
        ({"epsilon": 3e-4, "loss_type": "dapo"}, "The clip bound (0.0003) clips almost every token-level ratio."),
    ],
)
def test_message(settings: dict[str, Any], message: str) -> None:
    found = find("CFG006", settings, loss="0")
    assert (found.severity, found.message) == ("warning", message)


@pytest.mark.parametrize(
    ("settings", "fires"),
    [
        ({"epsilon": 0.2}, False),
        ({"epsilon": 0.05, "importance_sampling_level": "sequence"}, True),
        ({"epsilon": 0.049, "importance_sampling_level": "sequence"}, False),
        ({"epsilon": 0.002, "importance_sampling_level": "token"}, True),
        ({"epsilon": 0.0021, "importance_sampling_level": "token"}, False),
        ({"epsilon": 3e-4, "loss_type": "gspo"}, False),
        ({"epsilon": 1e-3, "loss_type": "cispo"}, False),
        ({"epsilon": 0.2, "epsilon_high": 0.28, "loss_type": "cispo", "framework": "TRL"}, True),
        ({"epsilon": 0.2, "loss_type": "cispo", "framework": "TRL"}, True),  # epsilon_high is epsilon then
        ({"epsilon": 0.2, "epsilon_high": 5.0, "loss_type": "cispo", "framework": "TRL"}, False),
        ({"epsilon": 0.2, "epsilon_high": 1.0, "loss_type": "cispo", "framework": "TRL"}, False),
        ({"epsilon": 0.2, "epsilon_high": 0.99, "loss_type": "cispo", "framework": "TRL"}, True),
        ({"epsilon": 0.2, "epsilon_high": 0.0, "loss_type": "cispo", "framework": "TRL"}, False),
        ({"epsilon": 0.2, "epsilon_high": 0.28, "loss_type": "cispo", "framework": "verl"}, False),
        ({"epsilon": 0.0}, False),
        ({"importance_sampling_level": "sequence"}, False),
    ],
)
def test_boundary(settings: dict[str, Any], fires: bool) -> None:
    assert (run_check("CFG006", settings, loss="0") is not None) is fires


@pytest.mark.parametrize(("updates", "severity"), [(1, "info"), (2, "warning")])
def test_no_bound_acts_in_the_only_update_of_a_rollout(updates: int, severity: str) -> None:
    settings = {"epsilon": 0.2, "importance_sampling_level": "sequence", "updates_per_rollout": updates}
    assert find("CFG006", settings, loss="0").severity == severity
