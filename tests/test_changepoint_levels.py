"""Which levels exceed autocorrelated noise, one step before each limit and at it. Error rates: benchmarks."""

from __future__ import annotations

import numpy as np
import pytest

from grpo_doctor.series.changepoint import ALONG, climbed, sunk
from tests.simulated import noise

AT = np.arange(40)
SWING = np.tile([0.4, 0.6], 20)


def falls(values: np.ndarray) -> bool:
    return sunk(values, 3)


@pytest.mark.parametrize(("drop", "fell"), [(0.192, False), (0.193, True)])
def test_a_level_shift_must_explain_more_than_its_parameter(drop: float, fell: bool) -> None:
    assert falls(SWING - drop * (AT >= 28)) is fell


@pytest.mark.parametrize(("height", "fell"), [(0.213, False), (0.214, True)])
def test_a_stretch_costs_one_more_parameter(height: float, fell: bool) -> None:
    assert falls(SWING + height * ((AT >= 10) & (AT < 25))) is fell


@pytest.mark.parametrize(("drop", "fell"), [(0.346, False), (0.347, True)])
def test_a_fall_after_a_dip_shows_next_to_it(drop: float, fell: bool) -> None:
    """Neither the dip nor the fall alone justifies an extra term."""
    dip = SWING - drop * ((AT >= 8) & (AT < 16))
    assert not falls(dip)
    assert falls(dip - drop * (AT >= 30)) is fell


@pytest.mark.parametrize(("level", "rows", "fell"), [(0.25, 4, False), (0.077, 5, False), (0.078, 5, True)])
def test_a_last_level_without_noise_shows_by_itself(level: float, rows: int, fell: bool) -> None:
    """Starting at the fifth value, it is known that there is no noise."""
    assert falls(np.where(40 - rows <= AT, 0, SWING - 0.5 + level)) is fell


@pytest.mark.parametrize(("drop", "fell"), [(0.303, False), (0.304, True)])
def test_all_that_goes_down_has_no_level(drop: float, fell: bool) -> None:
    assert falls(SWING - drop * AT / 39) is fell


def test_noise_that_wanders_has_no_levels() -> None:
    rng = np.random.default_rng(0)
    assert np.mean([falls(noise(100, ALONG, 1, rng)) for _ in range(300)]) <= 0.02


@pytest.mark.parametrize(("rows", "fell"), [(2, False), (3, True)])
def test_fewer_values_than_a_window_are_not_a_level(rows: int, fell: bool) -> None:
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
    """Squares that overflow show nothing."""
    assert falls(np.repeat([first, second], 10)) is fell


@pytest.mark.parametrize(("rise", "worth"), [(0.122, False), (0.123, True)])
def test_a_gain_may_be_one_step(rise: float, worth: bool) -> None:
    assert (climbed(SWING + rise * (AT >= 28), 3) > 1) is worth


@pytest.mark.parametrize(("rise", "worth"), [(0.144, False), (0.145, True)])
def test_a_gain_may_be_a_slope(rise: float, worth: bool) -> None:
    assert (climbed(SWING + rise * AT / 39, 3) > 1) is worth


@pytest.mark.parametrize(("rows", "worth"), [(2, False), (3, True)])
def test_fewer_values_than_a_window_are_not_a_step_up(rows: int, worth: bool) -> None:
    assert (climbed(SWING + 0.3 * (40 - rows <= AT), 3) > 1) is worth


@pytest.mark.parametrize("values", [np.zeros(20), -AT, -SWING * AT, np.repeat([-1e308, 1e308], 20)])
def test_a_flat_series_has_not_climbed(values: np.ndarray) -> None:
    """Nor have squares that overflow."""
    assert climbed(values, 3) == 0
