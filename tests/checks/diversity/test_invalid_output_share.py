from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


@pytest.mark.parametrize(
    ("rate", "severity"), [("0.1", None), ("0.11", "warning"), ("0.31", "error"), ("0.81", "critical")]
)
def test_levels_over_ten_steps(rate: str, severity: str | None) -> None:
    found = run_check("DIV004", fallback_rate=f"0x5 {rate}x20")
    assert (found and found.severity) == severity
    if severity == "error":
        assert found is not None
        assert found.message == (
            "31% of the responses in the last 10 steps are invalid or were replaced by a default (0% at the start)."
        )


@pytest.mark.parametrize(("groups", "share", "severity"), [(3, 0.45, None), (32, 0.45, "warning"), (32, 0.55, "error")])
def test_a_share_of_few_responses_must_be_worse_by_more_than_chance(
    groups: int, share: float, severity: str | None
) -> None:
    found = run_check("DIV004", {"groups": groups, "group_size": 8}, fallback_rate=f"0.3x5 {share}x20")
    assert (found.severity if found else None) == severity


@pytest.mark.parametrize(("share", "severity"), [(0.5, "error"), (0.49, "warning")])
def test_an_error_takes_twice_the_rise(share: float, severity: str) -> None:
    found = find("DIV004", thresholds={"rise": 0.125}, fallback_rate=f"0.25x5 {share}x20")
    assert found.severity == severity


def test_a_policy_that_learns_the_form_is_not_flagged() -> None:
    assert run_check("DIV004", valid_rate="0.2x10 0.4x10 0.6x10 0.8x20") is None


@pytest.mark.parametrize(("rate", "severity"), [("0.2", "warning"), ("0.19", "error")])
def test_a_form_that_is_never_learnt_is_found_after_forty_steps(rate: str, severity: str) -> None:
    assert run_check("DIV004", valid_rate=f"{rate}x41") is None
    found = find("DIV004", valid_rate=f"{rate}x42")
    assert (found.severity, found.detected_step) == (severity, 42)


def test_evidence_is_split_by_what_happened_before() -> None:
    found = find(
        "DIV004", fallback_rate="0 0 0 0 0 0 1 0 1 0 1 0 1 0 1 0", update_applied="0 0 0 0 0 1 0 1 0 1 0 1 0 1 0 0"
    )
    assert (found.evidence["after_update"], found.evidence["otherwise"]) == (1, 0)


def test_an_unrewarded_format_is_a_warning_while_the_reward_rises() -> None:
    rewards = [0.1] * 5 + [0.1 + 0.01 * i for i in range(45)]
    found = find("DIV004", valid_rate="0.2x50", reward_mean=rewards)
    assert (found.severity, found.cleared) == ("warning", False)


@pytest.mark.parametrize(
    ("thresholds", "columns", "severity"),
    [
        ({"rise": 0.125, "warning_share": 0.125}, {"fallback_rate": "0.125x5 0.25x12"}, "warning"),
        ({"warning_share": 0.25}, {"fallback_rate": "0x5 0.25x12"}, None),
        ({"error_share": 0.25}, {"fallback_rate": "0x5 0.25x12"}, "warning"),
        ({"critical_share": 0.75}, {"fallback_rate": "0x5 0.75x12"}, "error"),
        ({"error_share": 0.5}, {"fallback_rate": "0.5x50"}, None),
        ({"critical_share": 0.75}, {"fallback_rate": "0.75x50"}, "warning"),
        ({}, {"fallback_rate": "0.55x5 0.5x45"}, "warning"),
    ],
)
def test_exactly_at_a_threshold(thresholds: dict[str, float], columns: dict[str, Any], severity: str | None) -> None:
    found = run_check("DIV004", thresholds=thresholds, **columns)
    assert (found.severity if found else None) == severity
