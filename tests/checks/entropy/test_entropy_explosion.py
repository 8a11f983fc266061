from typing import Any

import pytest

from grpo_doctor.testing import run_check

DROP = "0.3 0.31 0.29 0.3 0.2 0.1 0x9"


def test_one_row_before_and_at_the_boundary() -> None:
    assert run_check("ENT003", entropy_mean="0.8x5 1.61x4 0.8x6") is None
    assert run_check("ENT003", entropy_mean="0.8x5 1.6x10") is None
    assert run_check("ENT003", entropy_mean="0.3x5 1.0x10") is None
    found = run_check("ENT003", entropy_mean="0.8x5 1.61x5 0.8x5")
    assert found is not None
    assert (found.severity, found.onset_step, found.detected_step) == ("warning", 6, 10)
    assert found.message == "Entropy rose from 0.8 to 1.61 nats."


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"reward_mean": DROP}, "error"),
        ({"reward_mean": "0.1 0.2 0.3 0.4 0.5 0.6 0.65 0.7 0.72 0.75 0.77 0.8 0.82 0.84 0.86"}, "warning"),
        ({"reward_mean": DROP, "response_length_mean": "100x5 151x10"}, "critical"),
        ({"reward_mean": DROP, "response_length_mean": "100x5 150x10"}, "error"),
        ({"reward_mean": DROP, "truncated_rate": "0x5 0.2x10"}, "critical"),
        ({"reward_mean": DROP, "fallback_rate": "0.1x5 0.4x10"}, "critical"),
    ],
)
def test_severity_follows_reward_and_text(columns: dict[str, Any], expected: str) -> None:
    found = run_check("ENT003", entropy_mean="0.8x5 3.01x10", **columns)
    assert found is not None
    assert found.severity == expected


def test_a_length_explosion_keeps_the_headline_unless_the_text_is_noise() -> None:
    columns: dict[str, Any] = {
        "reward_mean": DROP,
        "response_length_mean": "100x5 300x10",
        "truncated_rate": "0x5 0.9x10",
    }
    along = run_check("ENT003", entropy_mean="0.8x5 3x10", **columns)
    noise = run_check("ENT003", entropy_mean="0.8x5 3.01x10", **columns)
    assert along is not None
    assert noise is not None
    assert (along.severity, noise.severity) == ("info", "critical")


def test_it_began_half_of_the_way_in_ratio_from_its_lowest_value() -> None:
    found = run_check("ENT003", entropy_mean="0.8x5 0.4x10 0.6 0.61 0.79 0.81 1.2 2x5")
    assert found is not None
    assert found.onset_step == 19  # above the root of 0.4 x 1.6


def test_small_swings_long_before_are_not_its_beginning() -> None:
    found = run_check("ENT003", entropy_mean="0.25 0.06x9 0.2x20 0.15 0.5 0.9 1.7 3.9x6")
    assert found is not None
    assert found.onset_step == 32


def test_a_healthy_rise_below_one_nat_is_not_flagged() -> None:
    assert run_check("ENT003", entropy_mean="0.3x5 0.5x5 0.8x5", reward_mean="0.3x15") is None


@pytest.mark.parametrize(
    ("thresholds", "columns", "severity"),
    [
        ({"broken_rise": 0.25}, {"reward_mean": DROP, "fallback_rate": "0x5 0.25x10"}, "critical"),
        ({"random": 4.0}, {"response_length_mean": "100x5 200x10", "truncated_rate": "0x5 0.9x10"}, "warning"),
        ({"random": 4.0}, {"response_length_mean": "100x5 300x10", "truncated_rate": "0x5 0.15x10"}, "info"),
    ],
)
def test_exactly_at_a_threshold(thresholds: dict[str, float], columns: dict[str, Any], severity: str) -> None:
    found = run_check("ENT003", thresholds=thresholds, entropy_mean="0.8x5 3.01x10", **columns)
    assert found is not None
    assert found.severity == severity


def test_an_initial_value_of_0_is_ignored_for_the_onset() -> None:
    found = run_check("ENT003", entropy_mean="0 0.8x4 3.01x10")
    assert found is not None
    assert found.message == "Entropy rose from 0.8 to 3.01 nats."
    onset = run_check("ENT003", entropy_mean="0.8x5 1.0x3 2x7")
    assert onset is not None
    assert onset.onset_step == 9


@pytest.mark.parametrize(("before", "onset"), [("0.5", 15), ("0.51", 12)])
def test_exactly_at_the_middle_it_has_not_begun(before: str, onset: int) -> None:
    found = run_check("ENT003", entropy_mean=f"0.5 0.25x10 {before}x3 2x5")  # the root of 0.25 x 1.0
    assert found is not None
    assert found.onset_step == onset
