import numpy as np

from grpo_doctor.testing import find, run_check

RNG = np.random.default_rng(0)
LENGTH = np.linspace(20, 60, 40) + RNG.normal(0, 3, 40)


def test_a_bonus_for_length_shows_in_the_changes() -> None:
    reward = 0.02 * LENGTH + RNG.normal(0, 0.005, 40)
    assert run_check("REW003", reward_mean=reward[:34].tolist(), response_length_mean=LENGTH[:34].tolist()) is None
    found = find("REW003", reward_mean=reward.tolist(), response_length_mean=LENGTH.tolist())
    assert found.severity == "warning"
    assert found.message == ("Changes of the response length explain 98% of the changes of the reward over 30 steps.")


def test_two_series_that_merely_rise_are_not_tied() -> None:
    reward = np.linspace(0.2, 0.8, 40) + RNG.normal(0, 0.05, 40)
    assert run_check("REW003", reward_mean=reward.tolist(), response_length_mean=LENGTH.tolist()) is None


def test_noise_around_a_level_is_no_growth() -> None:
    length = 30 + RNG.normal(0, 3, 60)
    reward = (0.02 * length).tolist()
    assert run_check("REW003", reward_mean=reward, response_length_mean=length.tolist()) is None


def test_a_length_that_grows_by_the_same_step_explains_nothing() -> None:
    reward = (np.linspace(0.2, 0.8, 60) + RNG.normal(0, 0.03, 60)).tolist()
    assert run_check("REW003", reward_mean=reward, response_length_mean=[300 + 3.1 * i for i in range(60)]) is None
