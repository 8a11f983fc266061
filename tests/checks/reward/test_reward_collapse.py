from typing import Any

import numpy as np
import pytest

from grpo_doctor.testing import find, run_check

RISE = "0.10 0.22 0.28 0.41 0.47 0.61 0.58 0.60 0.62 0.59 0.61 0.60"


def test_a_cliff_to_the_floor_is_found_when_five_rewards_lie_there() -> None:
    assert run_check("REW009", reward_mean=f"{RISE} 0.1x4") is None
    found = find("REW009", reward_mean=f"{RISE} 0.1x5")
    assert found.severity == "error"
    assert (found.onset_step, found.detected_step) == (13, 17)
    assert found.message == (
        "The reward fell from 0.604 to 0.1 (the run's floor is 0.1) and has stayed there since step 13."
    )


def test_it_becomes_critical_when_most_of_twenty_rewards_lie_there() -> None:
    rise = " ".join([RISE, "0.6x20"])
    assert find("REW009", reward_mean=f"{rise} 0.05x17").severity == "error"
    assert find("REW009", reward_mean=f"{rise} 0.05x19").severity == "critical"


def test_half_of_the_range_lost_is_a_warning() -> None:
    found = find("REW009", reward_mean=f"{RISE} 0.6x20 0.3x25")
    assert (found.severity, found.cleared) == ("warning", False)


def test_negative_rewards_collapse_too() -> None:
    found = find("REW009", reward_mean="-1.0 -0.8 -0.6 -0.5 -0.4 -0.3 -0.2x10 -1.0x6")
    assert (found.severity, found.onset_step) == ("error", 17)


def test_rewards_from_minus_five_to_minus_four_are_as_wide_as_from_nought_to_one() -> None:
    fall = "-4.8x5 -4.4x20 -5.0x6"
    assert run_check("REW009", reward_mean=fall) is None  # 12 % of 5: what they can be is unknown
    assert run_check("REW009", reward_mean=fall, reward_std="1.21x31") is None
    assert find("REW009", reward_mean=fall, reward_std="0.5x31").severity == "error"


@pytest.mark.parametrize(
    "rewards",
    [
        pytest.param("0.0x3 0.1 0.2 0.3 0.4 0.5 0.6x30", id="learns"),
        pytest.param(f"{RISE} 0.2x3 0.6x20", id="a dip that recovers"),
        pytest.param("1.0x20 0.99 1.0x20 0.99x6", id="saturated, with a blip"),
        pytest.param("-0.1x10 -0.1005 -0.1x10 -0.1005x9", id="pinned at its floor"),
        pytest.param("0.6x4 0.0x3", id="too short to have a range"),
    ],
)
def test_silent(rewards: str) -> None:
    assert run_check("REW009", reward_mean=rewards) is None


@pytest.mark.parametrize("right", [0.1, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("seed", range(3))
def test_rewards_of_eight_responses_are_noise(right: float, seed: int) -> None:
    rewards = np.random.default_rng(seed).binomial(8, right, 200) / 8
    assert run_check("REW009", reward_mean=rewards.tolist()) is None


@pytest.mark.parametrize(
    ("thresholds", "columns", "severity"),
    [
        ({"least": 1.0}, {"reward_mean": "0x1 0.6x15 0x6", "reward_std": "0.2x22"}, None),
        ({}, {"reward_mean": "0x1 0.6x9 0x5"}, "error"),
        ({"least": 0.5}, {"reward_mean": "2x1 4x10 2x6"}, None),
        ({"lost": 0.75}, {"reward_mean": "0x1 4x10 1x5"}, "error"),
        ({"lost": 0.75, "rows": 2, "long": 4}, {"reward_mean": "0x1 4x20 1x4"}, "critical"),
        ({"sigmas": 2.0, "rows": 2, "long": 4}, {"reward_mean": "0x1 4x20 2x4"}, "warning"),
    ],
)
def test_exactly_at_a_threshold(thresholds: dict[str, float], columns: dict[str, Any], severity: str | None) -> None:
    found = run_check("REW009", thresholds=thresholds, **columns)
    assert (found.severity if found else None) == severity


@pytest.mark.parametrize(("middle", "onset"), [("2x5", 25), ("1.9x5", 20)])
def test_the_onset_is_where_the_reward_left_the_upper_half(middle: str, onset: int) -> None:
    found = run_check("REW009", thresholds={"rows": 1, "sigmas": 1.0}, reward_mean=f"0 4x20 {middle} 0x5")
    assert found is not None
    assert found.onset_step == onset


@pytest.mark.parametrize(("middle", "onset"), [("3x5", 25), ("2.9x5", 20)])
def test_the_onset_of_a_warning_is_where_it_left_the_upper_quarter(middle: str, onset: int) -> None:
    found = run_check("REW009", thresholds={"rows": 1, "long": 2, "sigmas": 1.0}, reward_mean=f"0 4x20 {middle} 2x5")
    assert found is not None
    assert (found.severity, found.onset_step) == ("warning", onset)
