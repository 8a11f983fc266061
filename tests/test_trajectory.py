"""The trajectory of a series: every kind and its dates, with equal results row by row and whole. Error rates:
benchmarks."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_doctor.series.noise_model import critical
from grpo_doctor.series.trajectory import BINS, Trajectory
from grpo_doctor.series.trend import LEAST, NOTHING, Outcome, common_denominator
from tests import simulated


def judged(values: list[float] | np.ndarray, top: float = math.nan) -> Outcome:
    trajectory = Trajectory()
    for step, value in enumerate(values):
        trajectory.push(float(value), step, top)
    return trajectory.outcome


def noisy(levels: np.ndarray, deviation: float = 0.05, seed: int = 0) -> np.ndarray:
    return levels + np.random.default_rng(seed).normal(0, deviation, len(levels))


RISE = np.clip(np.arange(200) / 100, 0, 1) * 0.5 + 0.1
CLIFF = np.where(np.arange(200) < 140, 0.6, 0.05)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (noisy(RISE), "learnt"),
        (noisy(RISE - 5), "learnt"),
        (np.clip(noisy(RISE * 1.6), 0, 1), "solved"),
        (noisy(np.full(200, 0.95), 0.01), "solved"),
        (noisy(CLIFF), "fell"),
        (noisy(CLIFF - 1), "fell"),
        (noisy(np.full(200, 0.3)), "flat"),
        (np.r_[np.zeros(87), [0.1, 0.2] * 6, 0.0], "never paid"),
        (np.full(30, -1.0), "never paid"),
        ([0.3, 0.4, 0.3], "cannot tell"),
    ],
)
def test_kinds(values: np.ndarray, kind: str) -> None:
    assert judged(values).kind == kind


def test_a_fall_is_dated_and_measured() -> None:
    fell = judged(noisy(CLIFF))
    assert fell.since == pytest.approx(140, abs=4)
    assert fell.best == pytest.approx(0.6, abs=0.05)
    assert fell.now == pytest.approx(0.05, abs=0.05)
    assert fell.fallen == 2


def test_a_loss_of_a_third_of_the_level_is_reported_without_failing() -> None:
    assert judged(noisy(np.where(np.arange(200) < 140, 0.6, 0.45), 0.02)).fallen == 1
    assert judged(noisy(np.where(np.arange(200) < 140, 0.6, 0.55), 0.02)).fallen == 0


def dropped(drop: float, rows: int) -> np.ndarray:
    """120 rows that vary by 0.05; the last ones are lower by this drop."""
    values = np.tile([0.45, 0.55], 60)
    values[len(values) - rows :] -= drop
    return values


@pytest.mark.parametrize(
    ("drop", "rows", "fell"), [(0.108, 7, False), (0.109, 7, True), (0.127, 6, False), (0.128, 6, True)]
)
def test_a_drop_must_lie_beyond_the_noise(drop: float, rows: int, fell: bool) -> None:
    assert (judged(dropped(drop, rows)).fallen > 0) is fell


@pytest.mark.parametrize(("end", "fell"), [("0 1 1", False), ("1 0 1", False), ("0 0 1", True)])
def test_a_single_low_value_near_the_end_is_no_fall(end: str, fell: bool) -> None:
    assert (judged(np.array([1.0] * 27 + [float(x) for x in end.split()])).fallen > 0) is fell


def test_a_slow_fall_shows_by_thirds_of_the_run() -> None:
    """Compared by quarters, 0.172 would be required."""
    slow = np.tile([0.4, 0.6], 60) - 0.165 * np.clip((np.arange(120) - 40) / 40, 0, 1)
    assert judged(slow).fallen > 0


def test_a_fall_that_recovers_is_not_reported_at_the_end() -> None:
    dip = np.where((np.arange(200) > 100) & (np.arange(200) < 130), 0.05, 0.6)
    assert judged(noisy(dip)[:128]).fallen == 2
    assert judged(noisy(dip)).fallen == 0


@pytest.mark.parametrize(("rows", "at_most"), [(20, 0.005), (40, 0.02), (60, 0.015)])
def test_rewards_that_are_mostly_0_have_not_gained(rows: int, at_most: float) -> None:
    """One row in ten has a reward: by Student's t, 5% to 13% of such runs would have gained."""
    rng = np.random.default_rng(0)
    lucky = [(rng.random(rows) < 0.1) * rng.random(rows) for _ in range(400)]
    assert np.mean([judged(values).gained for values in lucky]) <= at_most


def test_the_smallest_detectable_change_grows_with_the_noise() -> None:
    loud, quiet = judged(noisy(np.full(200, 0.3), 0.2)), judged(noisy(np.full(200, 0.3), 0.02))
    assert loud.shown == pytest.approx(10 * quiet.shown, rel=0.3)
    assert not loud.gained
    assert not quiet.gained


def test_a_known_top_decides_what_is_solved() -> None:
    assert judged(noisy(np.full(50, 1.9), 0.01), top=2.0).solved
    assert not judged(noisy(np.full(50, 1.9), 0.01), top=3.0).solved
    assert not judged(noisy(np.full(50, 1.9), 0.01)).solved  # no scale is known


def test_a_series_at_its_maximum_throughout_has_not_risen() -> None:
    still, risen = (
        judged(noisy(np.full(50, 0.95), 0.01)),
        judged(noisy(np.r_[np.full(10, 0.7), np.full(40, 0.95)], 0.01)),
    )
    assert (still.solved, still.risen) == (True, False)
    assert (risen.solved, risen.risen) == (True, True)


def test_one_low_first_value_is_not_a_gain() -> None:
    assert judged(np.r_[-0.14, -0.1, -0.12, np.tile([-0.1, -0.09, -0.1, -0.11], 6)]).kind == "flat"


def test_a_fall_to_the_minimum_is_found_after_a_noisy_run() -> None:
    """Rises, dips and recoveries fill the noise of the whole run; at the floor there is none."""
    restless = np.r_[noisy(np.linspace(0.2, 0.9, 8), 0.08), noisy(np.full(12, 0.85), 0.08), 0.3, 0.3, 0.25, 0.5]
    fell = judged(np.r_[restless, noisy(np.full(7, 0.9), 0.08), 0.4, noisy(np.full(9, 0.02), 0.02, seed=1)])
    assert (fell.kind, fell.fallen) == ("fell", 2)
    assert fell.since == pytest.approx(31, abs=1)


def test_critical_values_are_those_of_student() -> None:
    assert critical(1.96, 10) == pytest.approx(2.228, abs=0.01)  # two-sided 5%
    assert critical(1.96, 1000) == pytest.approx(1.962, abs=0.001)
    assert critical(4.8, 8) == pytest.approx(12.48, rel=0.02)  # one-sided 8e-7, of few degrees of freedom
    assert critical(4.8, 14) == pytest.approx(7.899, rel=0.002)


def test_no_finding_before_there_are_enough_values() -> None:
    assert judged([]) == NOTHING
    assert math.isnan(judged([0.1] * (LEAST - 1)).shown)
    assert judged([0.1] * LEAST).shown > 0
    assert judged([0.95] * 2).solved  # a level needs no noise


def test_values_that_are_not_finite_are_passed_over() -> None:
    values = noisy(RISE)
    holes = np.insert(values, 50, [math.nan, math.inf, -math.inf])
    assert judged(holes).kind == judged(values).kind
    assert judged(holes).rows == 200


def test_a_loss_turned_round_learns_where_it_falls() -> None:
    trajectory = Trajectory(-1.0)
    for step, value in enumerate(noisy(2.0 - RISE)):
        trajectory.push(value, step)
    assert trajectory.outcome.gained


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), max_size=3 * BINS), st.lists(st.integers(0, 3 * BINS), max_size=4))
def test_asking_on_the_way_changes_nothing(values: list[float], asked: list[int]) -> None:
    live = Trajectory()
    for step, value in enumerate(values):
        live.push(value, step)
        if step in asked:
            assert live.outcome.rows <= step + 1
    whole = judged(values)
    assert repr(live.outcome) == repr(whole)
    assert len(live.sums) <= BINS + 1


@pytest.mark.parametrize("along", [0.0, 0.3])
def test_flat_runs_neither_learn_nor_fall_and_what_moves_is_shown(along: float) -> None:
    """Twenty runs of each kind; `benchmarks/trajectory.md` has the shares over many."""
    rng = np.random.default_rng(0)
    flat = [simulated.noise(60, along, 1, rng) for _ in range(20)]
    assert sum(simulated.judged(x).gained for x in flat) <= 1
    assert sum(simulated.ever_fell(x) for x in flat) <= 1
    assert sum(simulated.judged(x + simulated.rising(60, 5)).gained for x in flat) >= 19
    fell = [simulated.judged(x + simulated.falling(60, 5)) for x in flat]
    assert sum(o.fallen > 0 and abs(o.since - 42) <= 6 for o in fell) >= 19


def test_memory_does_not_grow_with_the_run() -> None:
    trajectory = Trajectory()
    for step in range(5000):
        trajectory.push(0.5, step)
    assert len(trajectory.sums) <= BINS + 1
    assert len(trajectory.begins) <= BINS + 1


@pytest.mark.parametrize(("now", "gained"), [(1.01, False), (1.02, True)])
def test_a_negligible_gain_is_not_learning(now: float, gained: bool) -> None:
    assert judged(np.array([1.0] * 20 + [now] * 20)).gained is gained


def test_few_held_out_scores_fall_by_rank() -> None:
    scores = [0.52, 0.56, 0.6, 0.57, 0.47, 0.43, 0.44, 0.33, 0.3, 0.26, 0.25]
    for apart, fallen in ((True, 2), (False, 0)):
        series = Trajectory(apart=apart)
        for step, score in enumerate(scores):
            series.push(score, step)
        assert series.outcome.fallen == fallen


@pytest.mark.parametrize(
    ("after", "fallen"),
    [
        ([0.5, 0.45, 0.4, 0.35, 0.3, 0.25, 0.2], 2),
        ([0.5, 0.4, 0.45, 0.35, 0.3, 0.25, 0.2], 0),  # seven must each be below the previous one
        ([0.5, 0.4, 0.45, 0.35, 0.3, 0.25, 0.2, 0.15], 2),
        ([0.5, 0.4, 0.45, 0.35, 0.3, 0.2, 0.25, 0.15], 0),  # one pair of eight may lie the other way
    ],
)
def test_how_many_held_out_scores_must_go_down(after: list[float], fallen: int) -> None:
    series = Trajectory(apart=True)
    for step, score in enumerate([0.5, 0.55, 0.6, *after]):
        series.push(score, step)
    assert series.outcome.fallen == fallen


def scored(scores: list[float]) -> Outcome:
    series = Trajectory(apart=True)
    for step, score in enumerate(scores):
        series.push(score, step)
    return series.outcome


def test_six_held_out_scores_that_go_up_one_after_the_other_have_gained() -> None:
    five, six = scored([0.44, 0.46, 0.5, 0.52, 0.58]), scored([0.44, 0.46, 0.5, 0.52, 0.58, 0.6])
    assert (five.first, five.now) == pytest.approx((0.44, 0.58))
    assert (five.gained, five.kind, six.gained, six.kind) == (False, "cannot tell", True, "learnt")
    assert five.lean == pytest.approx(2.394 / 2.9, abs=1e-3)
    assert not judged([0.44, 0.46, 0.5, 0.52, 0.58, 0.6]).gained  # rewards of training are no few scores
    assert not scored([0.5, 0.501, 0.502, 0.503, 0.504, 0.505]).gained  # next to nothing


def test_a_steep_first_rise_is_a_gain_of_few_held_out_scores_by_rank() -> None:
    assert scored([0.04, 0.51, 0.71, 0.75, 0.76, 0.77, 0.8, 0.81]).gained


HIGH = [0.90, 0.88, 0.92, 0.99, 0.97, 0.93, 0.97, 0.96, 0.95, 0.92, 0.98, 0.94, 0.98, 0.98, 0.97, 0.95]


@pytest.mark.parametrize(
    ("end", "fallen"),
    [
        ([0.57], 0),  # a single value is not a level
        ([0.57, 0.0], 2),
        ([0.771, 0.0], 0),  # barely as far below the previous ones as they differ
        ([0.769, 0.0], 2),
    ],
)
def test_two_values_that_lie_far_below_all_before_are_a_collapse(end: list[float], fallen: int) -> None:
    assert judged([*HIGH, *end]).fallen == fallen


@pytest.mark.parametrize(("paid", "fallen"), [(1, False), (2, True)])
def test_one_value_among_zeros_is_not_a_level_to_fall_from(paid: int, fallen: bool) -> None:
    outcome = judged([0.0] * 20 + [0.01] * paid + [0.0] * 27)
    assert (outcome.fallen > 0, outcome.unpaid) == (fallen, True)


def test_noise_is_measured_when_the_run_has_grown_by_a_sixteenth() -> None:
    values = [0.5 + 0.01 * (-1) ** row for row in range(34)]
    one, two = (judged([*values[:rows], 0.7]).shown / judged([*values[:rows], 0.5]).shown for rows in (32, 33))
    assert (one == 1, two > 1.2) == (True, True)


def test_a_question_within_a_bin_is_answered_for_the_last_full_one() -> None:
    series = Trajectory()
    for step in range(BINS + 3):
        series.push(0.0 if step < BINS + 2 else -1.0, step)
    assert (series.outcome.rows, series.outcome.unpaid, series.low) == (BINS + 2, True, -1.0)


def test_one_score_far_below_the_line_of_all_before_is_a_fall() -> None:
    """Seven scores that rise evenly predict the eighth."""
    rising = [0.466, 0.492, 0.5, 0.51, 0.518, 0.528, 0.538]
    for last, fell in ((0.42, True), (0.535, False)):
        series = Trajectory(apart=True)
        for step, score in enumerate([*rising, last]):
            series.push(score, step)
        assert (series.outcome.fallen > 0) is fell
        assert (series.outcome.now == pytest.approx(last)) is fell
    scattered = Trajectory(apart=True)
    for step, score in enumerate([0.5, 0.55, 0.46, 0.53, 0.49, 0.56, 0.5, 0.44]):
        scattered.push(score, step)
    assert not scattered.outcome.fallen


@pytest.mark.parametrize(
    ("right", "items", "gained"),
    [
        (27, 52, False),  # two pairs more than half of 52
        (33, 52, False),  # half a standard error below the limit of 0.5 + 1 / sqrt(52)
        (34, 52, True),
        (270, 520, True),  # more pairs than the number that is recognised
        (0.54, 1, True),  # rounded to two decimals, so the number of pairs is unknown
    ],
)
def test_accuracy_on_held_out_pairs_must_exceed_guessing(right: float, items: int, gained: bool) -> None:
    trajectory = Trajectory(apart=True, chance=0.5)
    values = [0.5, 0.5 - 1 / items if items > 1 else 0.49, 0.5, 0.5] * 2 + [right / items] * 9
    for step, value in enumerate(values):
        trajectory.push(value, step)
    assert trajectory.outcome.gained is gained


@pytest.mark.parametrize(
    ("shares", "items"),
    [([25 / 52, 51 / 104], 104), ([0.48076921701431274, 0.5], 52), ([0.797, 0.819], 0), ([0.25, 0.5], 4), ([], 0)],
)
def test_common_denominator_of_shares(shares: list[float], items: int) -> None:
    """Multiples of 1/1000 have more items than are recognised, and multiples of 1/100 may be rounded."""
    assert common_denominator(np.array(shares)) == (0 if items == 4 else items)
