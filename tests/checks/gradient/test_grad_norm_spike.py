from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


def test_message_of_a_single_leap() -> None:
    found = find("GRD002", grad_norm="0.4x10 1.0x10 2900 1.0x3")
    assert (found.severity, found.onset_step, found.last_step) == ("warning", 21, 21)
    assert found.message == "The gradient norm spiked to 2900 (median of the previous 20 rows: 0.7)."


@pytest.mark.parametrize(
    ("norms", "severity"),
    [
        ("1x20 5", None),
        ("1x20 5.01", "warning"),
        ("1x19 900", None),  # the first twenty rows are not judged
        ("inf 1x30", None),
        ("1x10 50 1x9 60", None),  # such norms occurred before: a public log has 37 of them in 200 rows
        ("1x20 inf", "warning"),  # a loss scaler
        ("1x20 inf 1x99 inf", "error"),
        ("1x20 inf 1x100 inf", "warning"),
        ("1x20 inf inf", "error"),
    ],
)
def test_boundary(norms: str, severity: str | None) -> None:
    found = run_check("GRD002", grad_norm=norms)
    assert (found.severity if found else None) == severity


def test_a_leap_that_no_clipping_touches_is_an_ordinary_step() -> None:
    assert run_check("GRD002", grad_norm="0.01x20 1") is None
    assert run_check("GRD002", grad_norm="0.01x20 1.01") is not None
    assert run_check("GRD002", {"max_grad_norm": 0.2}, grad_norm="0.01x20 0.3") is not None
    assert run_check("GRD002", {"max_grad_norm": 5.0}, grad_norm="0.01x20 4") is None


@pytest.mark.parametrize(
    ("reward", "severity"),
    [
        ("0.5x40", "warning"),
        ("0x5 0.5x15 0.5 0x19", "error"),
        ("0x5 0.5x25 0x10", "info"),
        ("0x5 0.5x5 0x30", "warning"),
    ],
)
def test_a_leap_with_a_falling_reward_is_an_error(reward: str, severity: str) -> None:
    columns: dict[str, Any] = {"grad_norm": "1x20 90 1x19", "reward_mean": reward}
    assert find("GRD002", **columns).severity == severity


def test_exactly_so_many_deviations_above_the_median_are_none() -> None:
    rows = "0x10 2x10"  # median 1, median absolute deviation 1
    assert run_check("GRD002", thresholds={"mads": 16.0}, grad_norm=f"{rows} 17") is None
    assert run_check("GRD002", thresholds={"mads": 16.0}, grad_norm=f"{rows} 17.5") is not None


@pytest.mark.parametrize(
    ("norms", "reward", "fires"),
    [
        ("20x20", "0.3x20", False),
        ("20.1x5 1x15", "0.3x20", False),
        ("20.1x10 1x10", "0.3x20", True),
        ("1x20 262x20", "0.1x10 0.5x10 0.7x10 0.9x10", True),  # a leap
        ("4x20 19x20", "0.3x40", False),
    ],
)
def test_a_norm_that_is_huge_from_the_first_row(norms: str, reward: str, fires: bool) -> None:
    columns: dict[str, Any] = {"grad_norm": norms, "reward_mean": reward}
    assert (run_check("GRD002", **columns) is not None) is fires


@pytest.mark.parametrize(
    ("norms", "severity"),
    [("30x40", "info"), ("6x20 30x20", "info"), ("6x20 30.1x20", "warning"), ("1x20 19x20", None)],
)
def test_a_level_that_has_grown_counts_while_the_reward_gains(norms: str, severity: str | None) -> None:
    rising: dict[str, Any] = {"grad_norm": norms, "reward_mean": "0.1x10 0.5x10 0.7x10 0.9x10"}
    found = run_check("GRD002", **rising)
    assert (found.severity if found and not found.cleared else None) == severity


def test_message_of_a_huge_norm() -> None:
    found = find("GRD002", grad_norm="748x12")
    assert (found.severity, found.detected_step) == ("warning", 10)
    assert (
        found.message == "The gradient norm is 748 (median of 10 rows), so clipping at 1 sets the size of every step."
    )


@pytest.mark.parametrize(
    ("norms", "fires"),
    [("3e9", False), ("3e9 2.2e9", True), ("1e6 3e9", False), ("1.01e6 3e9", True), ("2 3e9", False), ("infx2", False)],
)
def test_a_norm_that_no_scale_explains_needs_two_rows(norms: str, fires: bool) -> None:
    found = run_check("GRD002", grad_norm=norms)
    assert (found is not None and found.severity == "warning") is fires


def test_how_few_rows_are_reported() -> None:
    assert "(median of 10 rows)" in find("GRD002", grad_norm="30x10").message
    told = "The gradient norm is 2.2e+09 (lowest of 2 rows), so clipping at 1 sets the size of every step."
    assert find("GRD002", grad_norm="3e9 2.2e9").message == told
