"""Ranks of few values: the exact probability of a rise and of a fall."""

from itertools import permutations
from statistics import NormalDist

import numpy as np
import pytest

from grpo_doctor.series.rank_test import climb, sinks


@pytest.mark.parametrize(
    ("values", "orders"), [([1, 2, 3, 4, 5], 1 / 120), ([2, 1, 3, 4, 5], 5 / 120), ([1, 2], 1 / 2)]
)
def test_the_chance_of_a_rise_is_counted_over_all_orders(values: list[int], orders: float) -> None:
    assert climb(np.array(values, float)) == pytest.approx(-NormalDist().inv_cdf(orders))


def test_every_order_of_five_is_as_likely_as_counted() -> None:
    found = np.array([climb(np.array(order, float)) for order in permutations(range(5))])
    for value in np.unique(found)[1:]:
        assert NormalDist().cdf(-value) == pytest.approx(np.mean(found >= value))


def test_equal_values_count_for_half_and_what_only_falls_for_nothing() -> None:
    assert climb(np.array([1.0, 1.0, 2.0])) == pytest.approx(climb(np.array([2.0, 1.0, 3.0])))
    assert climb(np.array([3.0, 2.0, 1.0])) < -8
    assert climb(np.array([1.0])) == -np.inf


@pytest.mark.parametrize(("down", "sunk"), [(6, False), (7, True)])
def test_seven_that_go_down_after_the_highest_have_sunk(down: int, sunk: bool) -> None:
    assert sinks(np.arange(down, -1, -1.0)) is sunk
