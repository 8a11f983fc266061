import math
from typing import Any

import pytest

from grpo_doctor.testing import find, run_check

N = 200


def curve(low: float, high: float) -> list[float]:
    return [low + (high - low) * min(n / 100, 1.0) + 0.01 * math.sin(n * 2.4) for n in range(N)]


def held(low: float, high: float, every: int = 20) -> list[float | None]:
    values = [low + (high - low) * n / N + 0.005 * math.sin(n * 1.7) for n in range(N)]
    return [value if n % every == 0 else None for n, value in enumerate(values)]


def test_the_gain_and_the_flat_score_are_reported() -> None:
    found = find("REW017", reward_mean=curve(0.2, 0.8), eval_score=held(0.3, 0.31))
    assert (found.severity, found.kind) == ("warning", "outcome")
    assert found.message.startswith("The reward rose from 0.439 to 0.8, but the held-out score did not. The held-out ")
    assert found.message.endswith(f"(10 evaluations; smallest detectable gain: {found.evidence['shown']:.2g}).")


@pytest.mark.parametrize(
    ("low", "high", "every", "fires"),
    [
        (0.3, 0.31, 20, True),
        (0.3, 0.31, 25, True),  # eight evaluations
        (0.3, 0.31, 29, False),  # seven
        (0.3, 0.7, 20, False),  # follows by more than half
        (0.93, 0.94, 20, False),  # no room
        (0.5, 0.2, 20, False),  # has fallen: REW015
    ],
)
def test_boundary(low: float, high: float, every: int, fires: bool) -> None:
    found = run_check("REW017", reward_mean=curve(0.2, 0.8), eval_score=held(low, high, every))
    assert (found is not None) is fires


@pytest.mark.parametrize(("gain", "fires"), [(0.16, False), (0.2, True)])
def test_a_small_gain_of_the_reward_is_not_compared(gain: float, fires: bool) -> None:
    reward = [0.2 + gain * min(n / 100, 1.0) + 0.001 * math.sin(n * 2.4) for n in range(N)]
    score = [0.3 if n % 20 == 0 else None for n in range(N)]
    assert (run_check("REW017", reward_mean=reward, eval_score=score) is not None) is fires


def test_the_success_rate_decides_where_it_is_logged() -> None:
    columns: dict[str, Any] = {"reward_mean": curve(0.2, 0.8), "eval_score": held(0.3, 0.31)}
    assert run_check("REW017", success_rate=curve(0.3, 0.9), **columns) is not None
    found = find("REW017", success_rate=curve(0.3, 0.9), **columns)
    assert found.message.startswith("The success rate rose from 0.539 to 0.9")


@pytest.mark.parametrize(("off", "fires"), [(0.0, True), (0.7, False), (-0.31, False)])
def test_a_score_beyond_0_and_1_is_not_compared(off: float, fires: bool) -> None:
    score = [None if value is None else value + off for value in held(0.3, 0.301)]
    assert (run_check("REW017", reward_mean=curve(0.2, 0.8), eval_score=score) is not None) is fires


def test_a_reward_of_unknown_scale_is_not_compared() -> None:
    assert run_check("REW017", reward_mean=curve(2.0, 8.0), eval_score=held(0.3, 0.31)) is None
    scaled = run_check(
        "REW017", reward_mean=curve(2.0, 8.0), reward_min=[0.0] * N, reward_max=[10.0] * N, eval_score=held(0.3, 0.31)
    )
    assert scaled is not None
    assert scaled.message.startswith("The reward rose from 4.4 to 8,")


def test_a_gain_before_the_first_evaluation_does_not_count() -> None:
    score = [value if n >= 100 else None for n, value in enumerate(held(0.3, 0.31, 10))]
    assert run_check("REW017", reward_mean=curve(0.2, 0.8), eval_score=score) is None
