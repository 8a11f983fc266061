from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


def test_too_far() -> None:
    assert run_check("STL003", policy_movement_kl="0.05x20") is None
    found = find("STL003", policy_movement_kl="0.06x7")
    assert (found.severity, found.detected_step) == ("warning", 7)
    assert found.message == "One update moves the policy by 0.06 nats/token: the step is too large."
    assert find("STL003", policy_movement_kl="6x8").severity == "error"


def test_not_at_all() -> None:
    found = find("STL003", policy_movement_kl="1e-9x8", learning_rate="1e-12x8")
    assert found.message == "One update moves the policy by 1e-09 nats/token: the step is too small to learn."


def test_warm_up_and_zero_variance_groups_are_valid_reasons_for_no_movement() -> None:
    assert run_check("STL003", policy_movement_kl="0x20", learning_rate="0x20") is None
    assert run_check("STL003", policy_movement_kl="0x20", zero_variance_groups="8x20", groups="8x20") is None


def test_a_rate_that_still_warms_up_is_not_too_small() -> None:
    warm_up = [1e-8 * i for i in range(1, 21)]
    assert run_check("STL003", policy_movement_kl="3e-8x20", learning_rate=warm_up) is None
    assert run_check("STL003", policy_movement_kl="3e-8x20", learning_rate="1e-8x20") is not None
    assert run_check("STL003", policy_movement_kl="1.1e-7x20", learning_rate="1e-8x20") is None


def test_samples_of_another_policy_say_nothing_of_the_step() -> None:
    stale: dict[str, Any] = {"policy_movement_kl": "6x9"}
    assert run_check("STL003", **stale, rollout_mismatch_raw_kl="0.02x9") is None
    assert find("STL003", **stale, rollout_mismatch_raw_kl="0.001x9").severity == "error"
    assert run_check("STL003", thresholds={"other": 0.25}, **stale, rollout_mismatch_kl="0.25x9") is not None


def test_healthy() -> None:
    assert run_check("STL003", policy_movement_kl="0.011x5 0.001x20 1.2e-5x20") is None


@pytest.mark.parametrize(
    ("thresholds", "columns", "severity"),
    [
        ({"still_nats": 0.25, "warning_nats": 9.0}, {"policy_movement_kl": "0.25x9"}, None),
        ({}, {"policy_movement_kl": "0.5x9"}, "warning"),
        ({"still_nats": 1.0}, {"policy_movement_kl": "0x9", "zero_variance_share": "0.9x9"}, None),
    ],
)
def test_exactly_at_a_threshold(thresholds: dict[str, float], columns: dict[str, Any], severity: str | None) -> None:
    found = run_check("STL003", thresholds=thresholds, **columns)
    assert (found.severity if found else None) == severity
