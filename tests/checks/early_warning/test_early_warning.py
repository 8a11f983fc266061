import random
from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


def wave(level: float, then: float, rows: int = 12) -> str:
    """30 rows near one level and more near another, with a ripple of 0.02."""
    values = [level] * 30 + [then] * rows
    return " ".join(str(round(v + 0.02 * (-1) ** i, 4)) for i, v in enumerate(values))


def test_three_indicators_and_a_falling_reward() -> None:
    three: dict[str, Any] = {
        "reward_std": wave(0.4, 0.1),
        "zero_variance_share": wave(0.1, 0.6),
        "entropy_mean": wave(0.8, 0.4),
    }
    assert find("EWS001", reward_mean=wave(0.5, 0.5), **three).severity == "info"
    found = find("EWS001", reward_mean=wave(0.5, 0.2), **three)
    assert found.severity == "warning"
    assert found.message.startswith("3 of 6 early indicators of a collapse have moved, and the reward has changed by -")
    assert run_check("EWS001", reward_mean=wave(0.5, 0.8), **three) is None


def test_two_indicators_are_not_enough() -> None:
    assert run_check("EWS001", reward_mean=wave(0.5, 0.2), reward_std=wave(0.4, 0.1), grad_norm=wave(0.5, 5)) is None


@pytest.mark.parametrize("seed", range(4))
def test_noise_is_not_flagged(seed: int) -> None:
    draw = random.Random(seed)
    names = ("reward_mean", "reward_std", "zero_variance_share", "entropy_mean", "grad_norm", "unique_rate")
    columns: dict[str, Any] = {n: [0.5 + 0.05 * draw.gauss(0, 1) for _ in range(120)] for n in names}
    assert run_check("EWS001", **columns) is None


@pytest.mark.parametrize(("falling", "severity"), [("0.25 0.75 " * 21, None), ("0.9 1 " * 15 + "0.1x12", "info")])
def test_a_constant_indicator_has_not_moved(falling: str, severity: str | None) -> None:
    still = "0.25 0.75 " * 21
    columns: dict[str, Any] = {
        **dict.fromkeys(("reward_mean", "grad_norm", "rollout_mismatch_kl", "zero_variance_share"), still),
        **dict.fromkeys(("reward_std", "entropy_mean", "unique_rate"), falling),
    }
    found = run_check("EWS001", thresholds={"moved_sigmas": 0}, **columns)
    assert (found.severity if found else None) == severity
