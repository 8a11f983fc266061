from tests.compare.pairs import compared, reward, run


def test_reports_better_as_info_and_worse_as_error() -> None:
    good, bad = run(reward_mean=reward(0, gain=0.6)), run(reward_mean=reward(1, gain=0.0))
    (told,) = compared(bad, good).findings
    assert (told.code, told.severity) == ("CMP001", "info")
    assert told.message == "The reward is higher (0.2 → 0.807)."
    (told,) = compared(good, bad).findings
    assert (told.code, told.severity) == ("CMP001", "error")
    assert told.message == "The reward is lower (0.807 → 0.2)."


def test_a_small_gain_is_not_a_difference_beyond_noise() -> None:
    (told,) = compared(run(reward_mean=reward(0)), run(reward_mean=reward(1, gain=0.52))).findings
    assert told.message.startswith("The reward is 0.7 in BASE and 0.711 in NEW; smallest detectable difference: 0.0")


def test_is_silent_without_a_series_of_success() -> None:
    assert compared(run(kl=[0.1] * 20), run(kl=[0.2] * 20)).findings == []
