"""Transforms give the same values pushed row by row, block by block and whole."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpo_doctor import stats

TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "recent_mean": lambda x: stats.recent_mean(x, 3),
    "noise": stats.noise,
    "gained": lambda x: stats.gained(x, 2),
    "fallen": lambda x: stats.standing(x, x, 2)[1],
    "standing": lambda x: stats._state(stats._Standing, 1)(x),
    "solved": lambda x: stats.solved(x, x * math.nan),
    "began": lambda x: stats.began(x > 1, x > 0, x),
    "solved_by_best": lambda x: stats.solved(x, x),
    "best": stats.best,
    "lowest": stats.lowest,
    "total": stats.total,
    "row": stats.row,
    "kendall_tau": lambda x: stats.kendall_tau(x, 4),
    "moving_mean": lambda x: stats.moving_mean(x, 4),
    "moving_max": lambda x: stats.moving_max(x, 4),
    "moving_min": lambda x: stats.moving_min(x, 4),
    "moving_median": lambda x: stats.moving_median(x, 4),
    "slope": lambda x: stats.slope(x, 4),
    "previous": lambda x: stats.previous(x, 3),
    "where": lambda x: stats.where(x > 1, x, 0.5),
    "maximum": lambda x: stats.maximum(x, stats.previous(x)),
    "fmax": lambda x: stats.fmax(x, stats.previous(x)),
    "fmin": lambda x: stats.fmin(x, stats.previous(x)),
    "sqrt": stats.sqrt,
    "is_any": lambda x: stats.is_any(x, 1.0, "group"),
    "several": lambda x: sum(stats.several(2, lambda v: (v + 1, 2 * v), x)),
    "moving_mad": lambda x: stats.moving_mad(x, 4),
    "known_median": lambda x: stats.known_median(x, 3),
    "total_of_a_condition": lambda x: stats.total(x > 1),
}
values = st.lists(st.one_of(st.just(math.nan), st.just(math.inf), st.floats(-5, 5, width=16)), min_size=1, max_size=40)


def whole(function: Callable[[Any], Any], x: np.ndarray) -> list[float]:
    return [float(v) for v in stats.Memory().block(function, [x], len(x))]


@pytest.mark.parametrize("name", TRANSFORMS)
@given(values=values, cut=st.integers(0, 40))
@np.errstate(all="ignore")
def test_push_equals_block(name: str, values: list[float], cut: int) -> None:
    function, x = TRANSFORMS[name], np.array(values)
    pushed, halves = stats.Memory(), stats.Memory()
    rows = [float(pushed.push(function, [v])) for v in x]
    parts = [float(v) for part in (x[:cut], x[cut:]) if len(part) for v in halves.block(function, [part], len(part))]
    np.testing.assert_array_equal(rows, whole(function, x))
    np.testing.assert_array_equal(parts, whole(function, x))


def test_a_sparse_mean_keeps_between_known_values() -> None:
    x = np.array([1.0, math.nan, 3.0, math.nan, 5.0])
    np.testing.assert_array_equal(whole(TRANSFORMS["recent_mean"], x), [math.nan] * 4 + [3.0])


def test_a_score_that_rises_beyond_its_noise_has_gained_and_one_that_drops_has_fallen() -> None:
    wave = 0.01 * (-1.0) ** np.arange(40)
    x = np.concatenate((np.linspace(0.1, 0.8, 40) + wave, 0.1 + wave))
    with np.errstate(all="ignore"):
        gained, fallen = whole(lambda v: stats.gained(v), x), whole(lambda v: stats.standing(v, v)[1], x)
        flat = whole(lambda v: stats.gained(v), 0.5 + wave)
    assert (gained[39], fallen[39], gained[79], fallen[79]) == (1, 0, 0, 1)
    assert sum(flat) == 0


@pytest.mark.parametrize(
    ("reward", "most", "expected"),
    [
        (0.95, math.nan, True),
        (0.85, math.nan, False),
        (3.5, math.nan, False),
        (3.7, 4.0, True),
        (0.95, 2.0, False),
        (0.0, 0.0, False),
    ],
)
def test_solved_needs_a_scale(reward: float, most: float, expected: bool) -> None:
    x = np.full(6, reward)
    solved = stats.Memory().block(stats.solved, [x, np.full(6, most)], 6)
    assert bool(solved[-1]) is expected
