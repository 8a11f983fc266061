"""The error rates of differences and divergences on simulated pairs; `benchmarks/compare.md` has the whole table."""

import numpy as np
import pytest

from benchmarks.compare import learning, pair
from grpo_doctor.compare.align import Aligned
from grpo_doctor.compare.difference import METRICS, PRIOR, SEED, difference_of, seed_error
from grpo_doctor.compare.divergence import partings
from tests.compare.pairs import reward

PAIRS = 40


@pytest.mark.parametrize("along", [0.0, 0.3, 0.6])
def test_two_seeds_of_one_setting_do_not_differ_and_do_not_part(along: float) -> None:
    rng = np.random.default_rng(1)
    quiet = 0
    for _ in range(PAIRS):
        series = {name: pair(60, along, rng) for name in METRICS}
        differs = any(difference_of(name, name, 1, aligned).beyond_noise for name, aligned in series.items())
        quiet += not differs and not partings(series)
    assert quiet >= 0.95 * PAIRS


def test_learning_curves_of_two_seeds_do_not_differ() -> None:
    found = [
        difference_of("reward_mean", "reward", 1, sides(reward(2 * seed), reward(2 * seed + 1)))
        for seed in range(PAIRS)
    ]
    assert sum(d.words == "no difference beyond noise" for d in found) >= PAIRS - 1
    assert not any(d.better for d in found)


def sides(base: list[float] | np.ndarray, new: list[float] | np.ndarray) -> Aligned:
    return Aligned(np.arange(1.0, len(base) + 1), np.array(base)[None], np.array(new)[None])


def test_a_level_shift_is_not_noise() -> None:
    """The simplest case: 0.57 falls to 0.11 at step 60, at a row noise of 0.02."""
    base, new = (np.array(reward(seed, 90, gain=0.37, noise=0.02)) for seed in (0, 1))
    new[59:] -= 0.46
    found = difference_of("reward_mean", "reward", 1, sides(base, new))
    assert (found.words, found.better, found.since) == ("lower", -1, 60)
    assert found.detectable < 0.06
    (parting,) = partings({"reward_mean": sides(base, new)})
    assert (parting.at, parting.until) == (60, None)


def test_a_dip_that_recovers_has_two_dates_and_is_not_a_final_difference() -> None:
    base, new = (np.array(reward(seed, 90, gain=0.0)) for seed in (0, 1))
    new[30:60] -= 0.2
    assert difference_of("reward_mean", "reward", 1, sides(base, new)).words == "no difference beyond noise"
    (parting,) = partings({"reward_mean": sides(base, new)})
    assert (parting.at, parting.until) == (31, 61)


@pytest.mark.parametrize("learns", [False, True])
def test_shifts_of_three_row_sigmas_over_the_last_third_are_found(learns: bool) -> None:
    rng = np.random.default_rng(5)
    pairs = [pair(60, 0.0, rng, 3.0, at=2 / 3) for _ in range(PAIRS)]
    pairs = [learning(aligned) for aligned in pairs] if learns else pairs
    found = [difference_of("reward_mean", "reward", 1, aligned) for aligned in pairs]
    assert sum(d.differs for d in found) >= 0.95 * PAIRS
    assert learns or sum(d.better == 1 for d in found) >= 0.9 * PAIRS


def test_a_difference_that_seeds_may_explain_is_inconclusive() -> None:
    base, new = np.array(reward(0, noise=0.01)), np.array(reward(1, noise=0.01)) + 0.08
    found = difference_of("reward_mean", "reward", 1, sides(base, new))
    assert (found.words, found.better) == ("inconclusive: higher, but seeds may differ as much", 0)


def test_the_detectable_difference_is_at_most_the_scale_of_the_score() -> None:
    rng = np.random.default_rng(6)
    base, new = (rng.choice([0.0, 1.0], 12) for _ in range(2))
    found = difference_of("eval_score", "held-out score", 1, sides(base, new))
    assert (found.scale, found.detectable, found.words) == (1.0, 1.0, "inconclusive: too noisy")


@pytest.mark.parametrize("scale", [1.0, 1000.0])
def test_noise_that_hides_half_of_the_scale_is_inconclusive_on_every_scale(scale: float) -> None:
    base, new = (np.random.default_rng(seed).choice([0.0, 1.0], 60) for seed in (0, 1))
    found = difference_of("kl", "KL", 0, sides(scale * base, scale * new))
    assert scale / 2 < found.detectable < scale
    assert found.words == "inconclusive: too noisy"


@pytest.mark.parametrize(("along", "places"), [(0.0, 40), (0.3, 100), (0.6, 400)])
def test_a_detectable_difference_is_found_in_80_percent_of_the_pairs(along: float, places: int) -> None:
    rng = np.random.default_rng(2)
    found = 0
    for _ in range(100):
        size = difference_of("reward_mean", "reward", 1, pair(places, along, rng)).detectable
        found += difference_of("reward_mean", "reward", 1, pair(places, along, rng, size)).differs
    assert found >= 80


def test_a_step_is_dated() -> None:
    rng = np.random.default_rng(3)
    dates = [p.at for _ in range(20) for p in partings({"reward_mean": pair(100, 0.3, rng, 6.0)})]
    assert len(dates) == 20
    assert max(abs(at - 40) for at in dates) <= 3


def test_runs_that_differ_from_the_first_step_part_there() -> None:
    x = np.arange(30.0)
    rng = np.random.default_rng(4)
    (found,) = partings({"kl": Aligned(x, rng.normal(0, 0.1, (1, 30)), rng.normal(3, 0.1, (1, 30)))})
    assert (found.at, round(found.base), round(found.new)) == (0, 0, 3)


def test_measured_seeds_take_the_place_of_the_guess() -> None:
    x = np.arange(80.0)
    base = np.repeat(np.arange(8.0), 10)[None]
    aligned = Aligned(x, base, base)
    one = np.array([1.0])
    assert seed_error(aligned, one, one) == pytest.approx(SEED * 7 * np.sqrt(2))
    three = np.array([1.0, 1.0, 1.0])
    assert seed_error(aligned, three, three) == pytest.approx(SEED * 7 * np.sqrt(PRIOR / (PRIOR + 4) * 2 / 3))


def test_equal_runs_differ_by_nothing_though_no_noise_is_left() -> None:
    x = np.arange(20.0)
    told = difference_of("kl", "KL", 0, Aligned(x, np.ones((1, 20)), np.ones((1, 20))))
    assert told.words == "no difference beyond noise"


def test_few_places_are_inconclusive() -> None:
    x = np.arange(7.0)
    told = difference_of("kl", "KL", 0, Aligned(x, np.ones((1, 7)), 2 * np.ones((1, 7))))
    assert (told.words, told.known, told.better) == ("too few to judge", False, 0)
