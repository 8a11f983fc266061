from tests.compare.pairs import compared, reward, run


def test_it_tells_what_would_have_shown_and_fails_what_is_worse() -> None:
    good, bad = run(reward_mean=reward(0, gain=0.6)), run(reward_mean=reward(1, gain=0.0))
    (told,) = compared(bad, good).findings
    assert (told.code, told.severity) == ("CMP001", "info")
    assert told.message == (
        "The reward of NEW is higher beyond noise: 0.1991 → 0.7988; one of 0.07 shows in four of five pairs."
    )
    (told,) = compared(good, bad).findings
    assert (told.code, told.severity) == ("CMP001", "error")
    assert told.message.startswith("The reward of NEW is lower beyond noise: 0.7988 → 0.1991")


def test_a_small_gain_is_no_difference_beyond_noise() -> None:
    (told,) = compared(run(reward_mean=reward(0)), run(reward_mean=reward(1, gain=0.52))).findings
    assert "of NEW is no different beyond noise: 0." in told.message


def test_nothing_is_said_without_success() -> None:
    assert compared(run(kl=[0.1] * 20), run(kl=[0.2] * 20)).findings == []
