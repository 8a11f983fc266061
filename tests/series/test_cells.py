"""Transforms give the same values row by row, block by block and whole, and a stored memory is a snapshot."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_doctor import series
from grpo_doctor.series import Plan, computed

TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "recent_mean": lambda x: series.recent_mean(x, 3),
    "noise": series.noise,
    "gained": lambda x: series.gained(x, 2),
    "gained_at_once": lambda x: series.gained(x, 1),
    "solved": lambda x: series.solved(x, x * math.nan, x <= 1),
    "began": lambda x: series.began(x > 1, x > 0, x),
    "solved_by_best": lambda x: series.solved(x, x, x <= 1),
    "best": series.best,
    "lowest": series.lowest,
    "total": series.total,
    "row": series.row,
    "kendall_tau": lambda x: series.kendall_tau(x, 4),
    "moving_mean": lambda x: series.moving_mean(x, 4),
    "moving_sum": lambda x: series.moving_sum(x, 4),
    "moving_sum_of_one": lambda x: series.moving_sum(x, 1),
    "moving_max": lambda x: series.moving_max(x, 4),
    "moving_min": lambda x: series.moving_min(x, 4),
    "moving_median": lambda x: series.moving_median(x, 4),
    "slope": lambda x: series.slope(x, 4),
    "previous": lambda x: series.previous(x, 3),
    "first": lambda x: series.baseline(x, 1),
    "baseline": lambda x: series.baseline(x, 3),
    "latest": series.latest,
    "square": lambda x: x**2,
    "where": lambda x: series.where(x > 1, x, 0.5),
    "branches": lambda x: series.where((x > 3) | ((x > 0) & (x * x < 2)), x - 1, series.where(x < -2, -x, x / 2)),
    "maximum": lambda x: series.maximum(x, series.previous(x)),
    "fmax": lambda x: series.fmax(x, series.previous(x)),
    "fmin": lambda x: series.fmin(x, series.previous(x)),
    "sqrt": series.sqrt,
    "is_any": lambda x: series.is_any(x, 1.0, "group"),
    "several": lambda x: sum(series.several(2, lambda v: (v + 1, 2 * v), x)),
    "moving_mad": lambda x: series.moving_mad(x, 4),
    "known_median": lambda x: series.known_median(x, 3),
    "total_of_a_condition": lambda x: series.total(x > 1),
    "fold": lambda x: series.fold(_longest, list, x),
}


def _longest(state: list[float], x: float) -> tuple[list[float], float]:
    """Changes its state in place, as the functions of users may."""
    state.append(x)
    return state, float(len(state))


values = st.lists(st.one_of(st.just(math.nan), st.just(math.inf), st.floats(-5, 5, width=16)), min_size=1, max_size=40)


def whole(function: Callable[[Any], Any], x: np.ndarray) -> list[float]:
    return [float(v) for v in computed(function, [x])]


@pytest.mark.parametrize("name", TRANSFORMS)
@given(values=values, cut=st.integers(0, 40))
@settings(max_examples=20)
@np.errstate(all="ignore")
def test_rows_and_blocks_give_the_same(name: str, values: list[float], cut: int) -> None:
    x, plan = np.array(values), Plan.of(TRANSFORMS[name], 1)
    pushed, halves = plan.begin(), plan.begin()
    rows, copied = [], []
    for v in x:
        aside = pushed
        pushed, (value,) = plan.row(pushed, [v])
        rows.append(float(value))
        copied.append(float(plan.row(aside, [v])[1][0]))
    parts: list[float] = []
    for part in (x[:cut], x[cut:]):
        if len(part):
            halves, (column,) = plan.block(halves, [part], len(part))
            parts += column.tolist()
    np.testing.assert_array_equal(rows, whole(TRANSFORMS[name], x))
    np.testing.assert_array_equal(parts, rows)
    np.testing.assert_array_equal(copied, rows)


def test_a_sparse_mean_keeps_between_known_values() -> None:
    x = np.array([1.0, math.nan, 3.0, math.nan, 5.0])
    np.testing.assert_array_equal(whole(TRANSFORMS["recent_mean"], x), [math.nan] * 4 + [3.0])


def test_a_score_that_rises_beyond_its_noise_has_gained() -> None:
    wave = 0.01 * (-1.0) ** np.arange(40)
    x = np.concatenate((np.linspace(0.1, 0.8, 40) + wave, 0.1 + wave))
    with np.errstate(all="ignore"):
        gained = whole(lambda v: series.gained(v), x)
        flat = whole(lambda v: series.gained(v), 0.5 + wave)
    assert (gained[39], gained[79]) == (1, 0)
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
    solved = computed(series.solved, [x, np.full(6, most), x <= 1])
    assert bool(solved[-1]) is expected


def test_median_absolute_deviation_tolerates_one_infinity() -> None:
    assert whole(lambda x: series.moving_mad(x, 5), np.array([1, 2, 4, math.inf, 3]))[-1] == 1.0


def test_known_median_passes_over_unknown_rows() -> None:
    assert whole(TRANSFORMS["known_median"], np.array([1, math.nan, 5, math.nan, 2]))[-1] == 2.0


@pytest.mark.parametrize(
    ("ddof", "live", "dead", "expected"), [(1, 1.0, 0.5, 0.5), (None, 0.9, 0.0, math.nan), (None, math.nan, 1.0, 0.0)]
)
def test_advantages_of_tied_groups_from_the_identity(
    ddof: int | None, live: float, dead: float, expected: float
) -> None:
    a = np.array([1.0, -1, 1, -1, 0.5, -0.5, 0.5, -0.5])  # one live group of 4, one tied group with noise of 0.5
    std = 0.9 * (dead == 0) if ddof is None else a.std(ddof=ddof)
    given = [np.array([x]) for x in (std, 0.0, live, dead, 8.0)]
    np.testing.assert_array_equal(computed(series.rms_on_ties, given), [expected])


@given(values=st.lists(st.integers(-9, 9), min_size=1, max_size=30), rows=st.integers(1, 8))
def test_a_moving_sum_is_the_sum_of_its_window(values: list[int], rows: int) -> None:
    summed = whole(lambda x: series.moving_sum(x, rows), np.array(values, float))
    windows = [values[i + 1 - rows : i + 1] if i + 1 >= rows else [math.nan] for i in range(len(values))]
    np.testing.assert_array_equal(summed, [float(sum(window)) for window in windows])


def test_values_outside_the_window_leave_no_residue_in_its_sum() -> None:
    summed = whole(lambda x: series.moving_sum(x, 3), np.array([1e300, math.inf, math.nan, 0.1, 0.2, 0.3, 0.4]))
    assert summed[-2:] == [pytest.approx(0.6), pytest.approx(0.9)]
