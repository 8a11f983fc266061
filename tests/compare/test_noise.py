"""The error rates of differences and partings on simulated pairs; `benchmarks/compare.md` has the whole table."""

import numpy as np
import pytest

from benchmarks.compare import pair
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
    for seed in range(PAIRS):
        series = [np.array(reward(2 * seed + side))[None] for side in (0, 1)]
        told = difference_of("reward_mean", "reward", 1, Aligned(np.arange(60.0), *series))
        assert told.words in ("no difference beyond noise", "higher, as seeds may be", "lower, as seeds may be")


@pytest.mark.parametrize(("along", "places"), [(0.0, 40), (0.3, 100), (0.6, 400)])
def test_what_is_called_detectable_is_seen_in_four_of_five_pairs(along: float, places: int) -> None:
    rng = np.random.default_rng(2)
    seen = 0
    for _ in range(100):
        size = difference_of("reward_mean", "reward", 1, pair(places, along, rng)).detectable
        seen += difference_of("reward_mean", "reward", 1, pair(places, along, rng, size)).better == 1
    assert seen >= 80


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


def test_few_places_are_too_few_to_tell() -> None:
    x = np.arange(7.0)
    told = difference_of("kl", "KL", 0, Aligned(x, np.ones((1, 7)), 2 * np.ones((1, 7))))
    assert (told.words, told.known, told.better) == ("too few to tell", False, 0)
