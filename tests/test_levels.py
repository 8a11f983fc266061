"""Which levels show beyond noise that wanders, one step before each limit and at it. Error rates: benchmarks."""

from __future__ import annotations

import numpy as np
import pytest

from grpo_doctor.levels import ALONG, sunk
from tests.simulated import noise

AT = np.arange(40)
SWING = np.tile([0.4, 0.6], 20)


def falls(values: np.ndarray, along: float = ALONG) -> bool:
    return sunk(values, along, 3)


@pytest.mark.parametrize(("drop", "fell"), [(0.181, False), (0.182, True)])
def test_a_step_must_be_worth_what_it_costs(drop: float, fell: bool) -> None:
    assert falls(SWING - drop * (AT >= 28)) is fell


@pytest.mark.parametrize(("height", "fell"), [(0.200, False), (0.201, True)])
def test_a_stretch_costs_a_place_more(height: float, fell: bool) -> None:
    assert falls(SWING + height * ((AT >= 10) & (AT < 25))) is fell


@pytest.mark.parametrize(("drop", "fell"), [(0.312, False), (0.313, True)])
def test_a_fall_after_a_dip_shows_beside_it(drop: float, fell: bool) -> None:
    """Neither the dip nor the fall is worth its cost alone."""
    dip = SWING - drop * ((AT >= 8) & (AT < 16))
    assert not falls(dip)
    assert falls(dip - drop * (AT >= 30)) is fell


@pytest.mark.parametrize(("level", "rows", "fell"), [(0.25, 4, False), (0.073, 5, False), (0.074, 5, True)])
def test_a_last_level_without_noise_shows_by_itself(level: float, rows: int, fell: bool) -> None:
    """From the fifth value on it is known that it has none."""
    assert falls(np.where(40 - rows <= AT, 0, SWING - 0.5 + level)) is fell


@pytest.mark.parametrize(
    ("drop", "wandering", "independent"), [(0.15, False, False), (0.2, False, True), (0.3, True, True)]
)
def test_what_is_independent_need_not_pay_for_wandering(drop: float, wandering: bool, independent: bool) -> None:
    values = np.random.default_rng(0).normal(0, 0.1, 40) - drop * (AT >= 28)
    assert (falls(values), falls(values, 0.0)) == (wandering, independent)


def test_noise_that_wanders_has_no_levels() -> None:
    rng = np.random.default_rng(0)
    assert np.mean([falls(noise(100, ALONG, 1, rng)) for _ in range(300)]) <= 0.02


@pytest.mark.parametrize(("rows", "fell"), [(2, False), (3, True)])
def test_fewer_values_than_a_window_are_no_level(rows: int, fell: bool) -> None:
    assert falls(SWING - 0.5 * (40 - rows <= AT)) is fell


@pytest.mark.parametrize(
    ("first", "second", "fell"),
    [
        (1.0, 0.0, True),
        (0.0, 1.0, False),
        (0.0, 0.0, False),
        (1e200, 0.0, False),
        (1e308, -1e308, False),
        (5e-324, 0.0, False),
    ],
)
def test_levels_without_any_noise(first: float, second: float, fell: bool) -> None:
    """Squares that are no numbers any more show nothing."""
    assert falls(np.repeat([first, second], 10)) is fell
