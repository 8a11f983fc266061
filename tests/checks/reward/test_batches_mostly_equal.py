from typing import Any

import pytest

from grpo_doctor.testing import find, run_check

MEAN, SPREAD = " ".join(["-0.2 0x9"] * 5), " ".join(["0.3 0x9"] * 5)


def test_no_spread_on_most_rows() -> None:
    """Lower rewards exist, so it is not the minimum, and one batch in ten still differs."""
    found = find("REW014", reward_mean=MEAN, reward_std=SPREAD)
    assert (found.severity, found.detected_step, found.cleared) == ("warning", 20, False)
    assert (
        found.message == "All rewards of the batch are equal on 45 of 50 rows, so these rows have no learning signal."
    )


def test_at_any_level() -> None:
    mean, spread = " ".join(["0 1 1 0.5"] * 10), " ".join(["0 0 0 0.4"] * 10)
    found = find("REW014", reward_mean=mean + " 1 0" * 12, reward_std=spread + " 0x24")
    assert (
        found.message == "All rewards of the batch are equal on 54 of 64 rows, so these rows have no learning signal."
    )


def test_no_warning_where_equal_groups_are_counted_or_the_reward_rises() -> None:
    for counted in ("0.9x50", "0.9 ?x49"):
        assert run_check("REW014", reward_mean=MEAN, reward_std=SPREAD, zero_variance_share=counted) is None
    rising = " ".join(["-0.2 0x4 1x5 2x40"])
    assert find("REW014", reward_mean=rising, reward_std=SPREAD).severity == "info"


def test_a_run_that_starts_learning_later_clears_it() -> None:
    found = find("REW014", reward_mean="0x30 0.1 0.2 0.3 0.5x40", reward_std="0x30 0.3x43")
    assert (found.detected_step, found.cleared) == (20, True)


@pytest.mark.parametrize(("rare", "fires"), [("-0.2 0x3", False), ("-0.2 0x4", True)])
def test_how_often_is_mostly(rare: str, fires: bool) -> None:
    spread = rare.replace("-0.2", "0.3")
    found = find("REW014", reward_mean=" ".join([rare] * 12), reward_std=" ".join([spread] * 12))
    assert (found.severity != "info") is fires


@pytest.mark.parametrize(("tied", "fires"), [("0 0.3", True), ("0 0.3 0 0.3 0.3", False)])
def test_half_of_the_batches_are_a_remark(tied: str, fires: bool) -> None:
    rewards = tied.replace("0.3", "1")
    found = run_check("REW014", reward_mean=" ".join([rewards] * 20), reward_std=" ".join([tied] * 20))
    assert (found.severity if found else None) == ("info" if fires else None)


@pytest.mark.parametrize(("spread", "fires"), [("1e-6x40", True), ("1.1e-6x40", False)])
def test_a_spread_of_a_millionth_is_none(spread: str, fires: bool) -> None:
    assert (run_check("REW014", reward_mean="0x40", reward_std=spread) is not None) is fires


@pytest.mark.parametrize(("rewards", "fires"), [("0 ? " * 18 + "?x3 0", False), ("0 ? " * 19 + "? 0", True)])
def test_not_before_the_twentieth_reward(rewards: str, fires: bool) -> None:
    assert (run_check("REW014", reward_mean=rewards, reward_std="0x40") is not None) is fires


@pytest.mark.parametrize(
    ("rewards", "lengths", "fires"),
    [
        ("0.55 0.64", "30 9", True),
        ("0.55 0.64 0.55 0.64 0.64 0.55", "30 9 30 9 9 30", True),
        ("0.55 0.64 0.55", "30 9 30", False),  # a third
        ("0.55 0.64 0.55 0.64", "30 9 30 9.1", False),  # two lengths
        ("0.55 0.64 0.55 0.63", "30 9 30 9", False),  # two rewards
        ("0.55 0.64", "?x2", False),
    ],
)
def test_half_of_the_rewards_are_enough_where_they_and_their_lengths_are_alike(
    rewards: str, lengths: str, fires: bool
) -> None:
    times = 60 // len(rewards.split())
    spread = " ".join(["0.2" if reward == "0.55" else "0" for reward in rewards.split()] * times)
    more: dict[str, Any] = {"response_length_mean": " ".join([lengths] * times)}
    found = run_check("REW014", reward_mean=" ".join([rewards] * times), reward_std=spread, **more)
    message = (
        "All rewards of the batch are equal on 30 of 60 rows, so these rows have no learning signal. The batches with "
        "equal rewards have the same reward and length."
    )
    assert (found is not None and found.message == message) is fires
    assert fires or found is None or found.severity == "info"
