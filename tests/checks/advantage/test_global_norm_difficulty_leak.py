from typing import Any

import pytest

from grpo_doctor.testing import run_check


def settings(normaliser: str) -> dict[str, object]:
    return {"normaliser": normaliser, "group_size": 8, "groups": 8}


def test_the_example_of_the_second_founding_document() -> None:
    """Rewards 1, 1, 1, 0.2, 0.2, 0.2 in two tied groups: a global norm gives exactly +1 and -1."""
    declared = {"normaliser": "batch", "group_size": 3, "groups": 2}
    found = run_check("ADV010", declared, advantage_std="1.0954x3", zero_variance_groups="2x3")
    assert found is not None
    assert (found.severity, found.detected_step) == ("warning", 3)
    assert found.message == (
        "Zero-variance groups (100% of all groups) have a root-mean-square advantage of 1.00 instead of 0."
    )


@pytest.mark.parametrize(
    ("normaliser", "std", "fires"),
    [("batch", "0.302x3", False), ("batch", "0.303x3", True), ("batch", "0.303x2", False), ("group", "0.9x3", False)],
)
def test_boundary(normaliser: str, std: str, fires: bool) -> None:
    columns: dict[str, Any] = {"advantage_std": std, "zero_variance_groups": std.replace(std.split("x")[0], "8")}
    assert (run_check("ADV010", settings(normaliser), **columns) is not None) is fires


def test_a_group_mean_that_is_subtracted_first_is_not_flagged() -> None:
    columns: dict[str, Any] = {"advantage_std": "0.71x9", "advantage_rms_live": "1x9", "zero_variance_groups": "4x9"}
    assert run_check("ADV010", settings("batch"), **columns) is None


@pytest.mark.parametrize(("leak", "fires"), [(0.5, False), (0.49, True)])
def test_exactly_at_the_threshold(leak: float, fires: bool) -> None:
    columns: dict[str, Any] = {"advantage_std": "0x3", "advantage_mean": "0.5x3", "zero_variance_groups": "8x3"}
    assert (run_check("ADV010", settings("batch"), thresholds={"leak": leak}, **columns) is not None) is fires
