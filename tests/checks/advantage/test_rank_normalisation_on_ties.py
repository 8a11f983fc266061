from typing import Any

import pytest

from grpo_doctor.testing import run_check

RANK = {"normaliser": "rank", "group_size": 8, "groups": 8}


def severity(settings: dict[str, Any], thresholds: dict[str, float] | None = None, **columns: Any) -> str | None:
    found = run_check("ADV005", settings, thresholds=thresholds, **columns)
    return found.severity if found else None


def test_message_when_every_group_is_tied() -> None:
    found = run_check("ADV005", RANK, advantage_std="0.66x3", zero_variance_groups="8x3")
    assert found is not None
    assert (found.severity, found.detected_step) == ("error", 3)
    assert found.message == (
        "Zero-variance groups (100% of all groups) have a root-mean-square advantage of 0.65 instead of 0: ranking breaks "
        "their ties at random."
    )


@pytest.mark.parametrize(
    ("settings", "std", "live", "dead", "expected"),
    [
        (RANK, "0.303x3", "?x3", "8x3", "error"),
        (RANK, "0.302x3", "?x3", "8x3", None),  # 0.302 * sqrt(63/64) < 0.3
        (RANK, "0.66x3", "0.65x3", "4x3", "warning"),
        (RANK, "0.66x3", "0.65x3", "5x3", "error"),
        (RANK, "0.47x3", "0.65x3", "4x3", None),  # tied groups have A = 0
        (RANK, "0.66x2", "?x2", "8x2", None),
        ({**RANK, "normaliser": "group"}, "0.66x3", "?x3", "8x3", None),
    ],
)
def test_boundary(settings: dict[str, Any], std: str, live: str, dead: str, expected: str | None) -> None:
    assert severity(settings, advantage_std=std, advantage_rms_live=live, zero_variance_groups=dead) == expected


@pytest.mark.parametrize(("largest", "expected"), [("1x3", "error"), ("0.99x3", None)])
@pytest.mark.parametrize("declared", [{}, {"normaliser": "group"}])
def test_ranks_show_by_exact_ones(declared: dict[str, str], largest: str, expected: str | None) -> None:
    settings = {"group_size": 8, "groups": 8, **declared}
    columns: dict[str, Any] = {"advantage_std": "0.66x3", "zero_variance_groups": "8x3", "advantage_min": "-1x3"}
    assert severity(settings, advantage_max=largest, **columns) == expected


def test_two_responses_are_one_and_minus_one_under_any_normaliser() -> None:
    columns: dict[str, Any] = {"advantage_max": "1x3", "advantage_min": "-1x3", "zero_variance_groups": "8x3"}
    assert severity({"group_size": 2, "groups": 8}, advantage_std="0.66x3", **columns) is None
    assert severity({"group_size": 3, "groups": 8}, advantage_std="0.66x3", **columns) == "error"


@pytest.mark.parametrize(("noise", "expected"), [(0.5, None), (0.49, "error")])
def test_exactly_at_a_threshold(noise: float, expected: str | None) -> None:
    columns: dict[str, Any] = {"advantage_std": "0x3", "advantage_mean": "0.5x3", "zero_variance_groups": "8x3"}
    assert severity(RANK, {"noise": noise}, **columns) == expected
