from typing import Any

import pytest

from grpo_doctor.testing import run_check

GROUP = {"normaliser": "group", "group_size": 8}


def severity(settings: dict[str, Any], **columns: Any) -> str | None:
    found = run_check("ADV004", settings, **columns)
    return found.severity if found else None


def test_message_and_onset() -> None:
    found = run_check("ADV004", GROUP, advantage_rms_live="0.9x3 0.0043x5")
    assert found is not None
    assert (found.severity, found.onset_step, found.detected_step) == ("warning", 4, 8)
    assert found.message == (
        "The root-mean-square advantage of groups with differing rewards is 0.0043, but dividing by the group's standard deviation would give 0.94."
    )


def test_without_group_counts_the_message_names_the_share_that_would_explain_it() -> None:
    found = run_check("ADV004", {}, advantage_std="0.0063 0.0062x9")
    assert found is not None
    assert found.message == (
        "The root-mean-square advantage is 0.0062, but dividing by the group's standard deviation would give 0.71. Zero-variance groups explain the small value only if at most 0.9% of the groups have differing rewards."
    )


@pytest.mark.parametrize(
    ("settings", "columns", "expected"),
    [
        (GROUP, {"advantage_rms_live": "0.004x4 0.94x9"}, None),  # four of ten rows
        (GROUP, {"advantage_rms_live": "0.467x10"}, "warning"),
        (GROUP, {"advantage_rms_live": "0.468x10"}, None),  # half of sqrt(7/8)
        (GROUP, {"advantage_rms_live": "0.09x10", "kl_grad_share": "0.57x10"}, "error"),
        (GROUP, {"advantage_rms_live": "0.09x10", "kl_grad_share": "0.5x10"}, "warning"),
        (GROUP, {"advantage_rms_live": "0.094x10", "kl_grad_share": "0.57x10"}, "warning"),
        ({**GROUP, "group_size": 2}, {"advantage_rms_live": [0.5 * 0.5**0.5] * 10}, None),
        ({}, {"advantage_std": [0.1 * 0.5**0.5] * 10}, None),
        ({"scale_rewards": True}, {"advantage_rms_live": "0.3x10"}, "warning"),
        ({"normaliser": "none"}, {"advantage_rms_live": "0.004x10"}, None),
        ({}, {"advantage_std": "0.0062x10"}, "warning"),  # Lever-Plus
        ({}, {"advantage_std": "0.08x10"}, None),
        ({}, {"advantage_std": "0.006x10", "reward_std": "0.0057x10"}, "warning"),
        ({}, {"advantage_std": "0.006x10", "reward_std": "0.006x10"}, None),  # A = r - mean
        (GROUP, {"advantage_std": "0.5x10", "dead_share_": "0.7x10"}, None),  # zero-variance groups, not a floor
        (GROUP, {"advantage_std": "0x10", "dead_share_": "1x10"}, None),
    ],
)
def test_boundary(settings: dict[str, Any], columns: dict[str, Any], expected: str | None) -> None:
    if dead := columns.pop("dead_share_", None):
        columns |= {"zero_variance_groups": dead, "groups": "1x10"}
    assert severity(settings, **columns) == expected


@pytest.mark.parametrize(
    ("thresholds", "columns", "severity"),
    [
        ({}, {"advantage_std": [1.05 * 0.0625] * 10, "reward_std": "0.0625x10"}, None),
        ({}, {"advantage_rms_live": "0x10"}, None),
        ({}, {"advantage_rms_live": "0.001x10", "zero_variance_share": "1x10"}, None),
        ({}, {"advantage_rms_live": [0.1 * 0.5**0.5] * 10}, None),
    ],
)
def test_exactly_at_a_threshold(thresholds: dict[str, float], columns: dict[str, Any], severity: str | None) -> None:
    found = run_check("ADV004", thresholds=thresholds, **columns)
    assert (found.severity if found else None) == severity


def test_a_declared_group_of_one_is_taken_for_two() -> None:
    found = run_check("ADV004", {"normaliser": "group", "group_size": 1}, advantage_rms_live="0.1x10")
    assert found is not None
    assert "would give 0.71" in found.message


def test_at_a_tenth_it_is_not_an_error() -> None:
    columns: dict[str, Any] = {"advantage_rms_live": [0.1 * 0.5**0.5] * 10, "kl_grad_share": "0.57x10"}
    assert severity({"normaliser": "group", "group_size": 2}, **columns) == "warning"
