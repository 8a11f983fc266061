"""Transforms of stats.py that spikes, joins with the reward, and advantages on ties need."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from grpo_doctor.stats import Memory, known_median, moving_mad, rms_on_ties

VALUES = st.lists(st.floats(-9, 9) | st.just(math.nan) | st.just(math.inf), min_size=1, max_size=40)


@given(VALUES, st.integers(1, 39))
def test_pushed_row_by_row_they_give_what_they_give_in_blocks(values: list[float], cut: int) -> None:
    def all_of_them(x: Any) -> Any:
        return moving_mad(x, 4), known_median(x, 3)

    xs = np.array(values)
    with np.errstate(all="ignore"):
        blocks = Memory()
        parts = [blocks.block(all_of_them, [x], len(x)) for x in (xs[:cut], xs[cut:]) if len(x)]
        memory = Memory()
        rows = [memory.push(all_of_them, [np.float64(x)]) for x in xs]
    for k in range(2):
        np.testing.assert_array_equal(np.concatenate([p[k] for p in parts]), np.array([r[k] for r in rows], float))


def of(function: Callable[..., Any], xs: list[float], *arguments: int) -> list[float]:
    with np.errstate(all="ignore"):
        out: list[float] = Memory().block(lambda x: function(x, *arguments), [np.array(xs, float)], len(xs)).tolist()
    return out


def test_median_absolute_deviation_stands_one_infinity() -> None:
    assert of(moving_mad, [1, 2, 4, math.inf, 3], 5)[-1] == 1.0


def test_known_median_passes_over_unknown_rows() -> None:
    assert of(known_median, [1, math.nan, 5, math.nan, 2], 3)[-1] == 2.0


def test_advantages_of_tied_groups_from_the_identity() -> None:
    a = np.array([1.0, -1, 1, -1, 0.5, -0.5, 0.5, -0.5])  # one live group of 4, one tied group with noise of 0.5
    assert rms_on_ties(a.std(ddof=1), a.mean(), 1.0, 0.5, 8) == np.float64(0.5)
    assert rms_on_ties(a.std(ddof=0), a.mean(), 1.0, 0.5, 8) < 0.5
    assert math.isnan(rms_on_ties(0.9, 0.0, 0.9, 0.0, 8))
    assert rms_on_ties(0.0, 0.0, math.nan, 1.0, 8) == 0.0
