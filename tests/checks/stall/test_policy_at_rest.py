from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


def test_without_rewards_small_advantages_and_a_kl_that_does_not_rise() -> None:
    found = find("STL006", {"rows": "epochs"}, advantage_std="0.0063 0.0062 0.0062", kl="0.094 0.081 0.074")
    assert (found.severity, found.onset_step, found.detected_step) == ("warning", 3, 3)
    assert found.message == (
        "The policy is not learning. The advantage scale is 0.0062, and the KL to the reference model has not risen (0.094 "
        "at the start, 0.074 now)."
    )


@pytest.mark.parametrize(
    ("settings", "columns", "fired"),
    [
        ({}, {"advantage_std": "0.0062x40", "kl": "0.04x40"}, True),
        ({}, {"advantage_std": "0.0062x39", "kl": "0.04x39"}, False),
        ({"rows": "epochs"}, {"advantage_std": "0.0062x2", "kl": "0.04x2"}, False),
        ({"rows": "epochs"}, {"advantage_std": "0.1x3", "kl": "0.04x3"}, False),
        ({"rows": "epochs"}, {"advantage_std": "0.008x2 0.0059", "kl": "0.04x3"}, False),  # changed by more than 25%
        ({"rows": "epochs"}, {"advantage_std": "0.0062x3", "kl": "0.04 0.04 0.0441"}, False),  # it moves away
        ({"rows": "epochs"}, {"advantage_std": "0.0062x3", "kl": "0.04 0.04 0.0439"}, True),
        ({"rows": "epochs"}, {"advantage_std": "0.0062x3"}, False),
        ({"rows": "epochs"}, {"advantage_std": "0.0062x3", "kl": "0.04x3", "reward_mean": "0.5x3"}, False),
    ],
)
def test_boundary_without_rewards(settings: dict[str, Any], columns: dict[str, Any], fired: bool) -> None:
    assert (run_check("STL006", settings, **columns) is not None) == fired


@pytest.mark.parametrize(
    ("thresholds", "size", "kl", "fired"),
    [
        ({"same_within": 0.25}, "0.0625x2 0.046875", "0.04x3", True),
        ({"same_within": 0.24}, "0.0625x2 0.046875", "0.04x3", False),
        ({"kl_rise": 0.25}, "0.0625x3", "0.5x2 0.625", True),
        ({"kl_rise": 0.24}, "0.0625x3", "0.5x2 0.625", False),
    ],
)
def test_exactly_at_a_threshold(thresholds: dict[str, float], size: str, kl: str, fired: bool) -> None:
    found = run_check("STL006", {"rows": "epochs"}, thresholds=thresholds, advantage_std=size, kl=kl)
    assert (found is not None) == fired
