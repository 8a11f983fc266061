import numpy as np
import pytest

from grpo_doctor.testing import find, run_check

RISE = "0.10 0.22 0.28 0.41 0.47 0.61 0.58 0.60 0.62 0.59 0.61 0.60 0.59 0.62 0.6 0.58 0.61 0.6 0.6 0.62"


def test_a_sudden_fall_to_the_minimum() -> None:
    found = find("REW009", reward_mean=f"{RISE} 0.1x20")
    assert (found.severity, found.onset_step, found.cleared) == ("critical", 21, False)
    assert found.message == "The reward fell from 0.603 to 0.1 at step 21."


@pytest.mark.parametrize(
    ("now", "severity"), [(0.1, "critical"), (0.25, "error"), (0.4, "error"), (0.48, "warning"), (0.54, None)]
)
def test_how_bad_a_fall_is(now: float, severity: str | None) -> None:
    found = run_check("REW009", reward_mean=f"0.1 0.2 0.3 0.4 0.5 0.6x30 {now}x30")
    assert (found.severity if found else None) == severity


@pytest.mark.parametrize(("share", "severity"), [(0.25, "critical"), (0.24, "error")])
def test_exactly_so_near_to_its_lowest(share: float, severity: str) -> None:
    found = run_check("REW009", thresholds={"floor_share": share}, reward_mean="0 1x30 0.25x30")
    assert found is not None
    assert found.severity == severity


def test_negative_rewards_fall_too() -> None:
    found = find("REW009", reward_mean="-1.0 -0.8 -0.6 -0.5 -0.4 -0.3 -0.2x14 -1.0x12")
    assert (found.severity, found.onset_step) == ("critical", 21)


@pytest.mark.parametrize(
    "rewards",
    [
        pytest.param("0.0x3 0.1 0.2 0.3 0.4 0.5 0.6x30", id="learns"),
        pytest.param(f"{RISE} 0.2x3 0.6x20", id="a dip that recovers"),
        pytest.param("1.0x20 0.99 1.0x20 0.99x6", id="saturated, with a blip"),
        pytest.param("-0.1x10 -0.1005 -0.1x10 -0.1005x9", id="pinned at its floor"),
        pytest.param("0.6x2 0.0x3", id="too short"),
    ],
)
def test_silent(rewards: str) -> None:
    found = run_check("REW009", reward_mean=rewards)
    assert found is None or found.cleared


@pytest.mark.parametrize("right", [0.1, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("seed", range(3))
def test_rewards_of_eight_responses_are_noise(right: float, seed: int) -> None:
    rewards = np.random.default_rng(seed).binomial(8, right, 150) / 8
    assert run_check("REW009", reward_mean=rewards.tolist()) is None
