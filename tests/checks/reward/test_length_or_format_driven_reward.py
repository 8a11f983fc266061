from typing import Any

import numpy as np
import pytest

from grpo_doctor.testing import find, run_check

OF_LENGTH, FIRST, SECOND, AROUND, LAST = np.split(np.random.default_rng(0).normal(0, 1, 240), (40, 80, 120, 180))
LENGTH = np.linspace(20, 60, 40) + 3 * OF_LENGTH


def test_a_bonus_for_length_shows_in_the_changes() -> None:
    reward = 0.02 * LENGTH + 0.005 * FIRST
    assert run_check("REW003", reward_mean=reward[:34].tolist(), response_length_mean=LENGTH[:34].tolist()) is None
    found = find("REW003", reward_mean=reward.tolist(), response_length_mean=LENGTH.tolist())
    assert found.severity == "warning"
    assert found.message == ("Changes in response length explain 98% of the reward changes over 30 steps.")


def test_two_series_that_merely_rise_are_not_tied() -> None:
    reward = np.linspace(0.2, 0.8, 40) + 0.05 * SECOND
    assert run_check("REW003", reward_mean=reward.tolist(), response_length_mean=LENGTH.tolist()) is None


def test_noise_around_a_level_is_not_growth() -> None:
    length = 30 + 3 * AROUND
    reward = (0.02 * length).tolist()
    assert run_check("REW003", reward_mean=reward, response_length_mean=length.tolist()) is None


def test_a_length_that_grows_by_the_same_step_explains_nothing() -> None:
    reward = (np.linspace(0.2, 0.8, 60) + 0.03 * LAST).tolist()
    assert run_check("REW003", reward_mean=reward, response_length_mean=[300 + 3.1 * i for i in range(60)]) is None


@pytest.mark.parametrize(("tiny", "fires"), [(0.25, False), (0.24, True)])
@pytest.mark.parametrize(("reward_step", "length_step"), [((0.125, 0.25), (1, 0.5)), ((0.0625, 0.03125), (1, 2))])
def test_a_series_must_vary_beyond_its_own_growth(
    reward_step: tuple[float, float], length_step: tuple[float, float], tiny: float, fires: bool
) -> None:
    """The steps of a series alternate between smaller and larger than their mean; half of it is a share of exactly
    0.25."""
    reward, length = (
        np.cumsum([mean + spread * (-1) ** i for i in range(44)]).tolist()
        for mean, spread in (reward_step, length_step)
    )
    found = run_check("REW003", thresholds={"tiny": tiny}, reward_mean=reward, response_length_mean=length)
    assert (found is not None) is fires


@pytest.mark.parametrize(("share", "fires"), [(1, False), (0.99, True)])
def test_a_length_that_explains_exactly_so_much(share: float, fires: bool) -> None:
    """The reward equals the length, so the length explains all of it."""
    both = np.cumsum([0.125 + 0.25 * (-1) ** i for i in range(44)]).tolist()
    found = run_check("REW003", thresholds={"explained_share": share}, reward_mean=both, response_length_mean=both)
    assert (found is not None) is fires


FORM = [0.3 + 0.02 * min(i, 40) + 0.01 * (i % 2) for i in range(60)]
RIGHT = [0.3, 0.5, 0.2, 0.3] * 15


def rewards(right: list[float], name: str = "correctness") -> dict[str, Any]:
    parts = [{"xml_tags": form, name: paid} for form, paid in zip(FORM, right, strict=True)]
    return {"reward_mean": [sum(part.values()) for part in parts], "reward_components": parts}


def test_a_reward_that_rises_by_its_form_alone() -> None:
    found = find("REW003", **rewards(RIGHT))
    assert (found.severity, found.kind, found.cleared) == ("warning", "outcome", False)
    assert found.message == (
        "The reward rose from 0.657 to 1.43 through formatting alone: the other components changed from 0.327 to 0.327."
    )
    assert run_check("REW003", **rewards(RIGHT, "soft_format")) is None  # nothing is known of anything else


@pytest.mark.parametrize(
    "right",
    [
        pytest.param([p + 0.02 * i for i, p in enumerate(RIGHT)], id="it is learnt too"),
        pytest.param([p + 0.006 * i for i, p in enumerate(RIGHT)], id="its noise leaves room for a third of the gain"),
        pytest.param([0.95, 0.93, 0.97, 0.95] * 15, id="it stood near its top"),
    ],
)
def test_a_reward_that_need_not_have_risen_by_form_alone(right: list[float]) -> None:
    assert run_check("REW003", **rewards(right)) is None


def test_a_success_rate_that_reward_hacking_explains_is_reported_once() -> None:
    assert run_check("REW003", reward_mean="0.2x20 1.0x20", success_rate="0.05x40") is None
    assert run_check("REW003", reward_mean="0.2x20 1.0x20", success_rate="0.051x40") is not None


@pytest.mark.parametrize(("now", "fires"), [(0.1, True), (0.19, False), (0.6, False)])
def test_a_reward_that_rises_while_the_success_rate_does_not(now: float, fires: bool) -> None:
    found = run_check("REW003", reward_mean="0.2x20 1.0x20", success_rate=f"0.1x20 {now}x20")
    assert (found is not None) is fires
    if now == 0.1:
        assert found is not None
        assert (found.kind, found.severity) == ("outcome", "warning")
        assert found.message == (
            "The reward rose from 0.2 to 1, but the success rate did not: 0.1 at the start, 0.1 now."
        )


def tagged(right: list[float]) -> list[dict[str, float]]:
    return [{"xml_tags": 1.0, "correctness": paid} for paid in right]


SUNK = tagged([0.5] * 2 + [0.25] * 38)


@pytest.mark.parametrize("beside", [{"reward_components": SUNK}, {"success_rate": "0.25x40"}])
def test_not_before_the_twentieth_row(beside: dict[str, Any]) -> None:
    """The condition holds on the 20th row and is reported after five of eight rows."""
    assert find("REW003", reward_mean="0.5x8 1.5x32", **beside).detected_step == 24


@pytest.mark.parametrize(
    ("thresholds", "beside", "fires"),
    [
        ({}, {"reward_components": tagged([0.0] * 2 + [-1.0] * 38)}, False),  # always 0 so far
        ({}, {"reward_components": tagged([0.1] * 2 + [-1.0] * 38)}, True),
        ({"done_share": 0.5}, {"reward_components": SUNK}, False),
        ({"done_share": 0.51}, {"reward_components": SUNK}, True),
        ({"done_share": 0.5}, {"success_rate": "0.5x40"}, False),
        ({"done_share": 0.51}, {"success_rate": "0.5x40"}, True),
    ],
)
def test_exactly_at_what_leaves_nothing_to_learn(
    thresholds: dict[str, float], beside: dict[str, Any], fires: bool
) -> None:
    found = run_check("REW003", thresholds=thresholds, reward_mean="0.5x8 1.5x32", **beside)
    assert (found is not None) is fires


@pytest.mark.parametrize(("times", "fires"), [(1, False), (1.01, True)])
@pytest.mark.parametrize("threshold", ["meant_share", "success_room"])
def test_a_noise_that_leaves_room_for_exactly_such_a_gain(threshold: str, times: float, fires: bool) -> None:
    """The reward gains 1, and the success rate could still gain half of its scale. The same series as a reward shows
    how large a gain its noise hides."""
    rates = threshold == "success_room"
    values = [0.5] * 40 if rates else [0.25] * 16 + [0.375] + [0.25] * 23
    hidden = find("STL001", reward_mean=values).evidence["shown"]
    beside: dict[str, Any] = {"success_rate": values} if rates else {"reward_components": tagged(values)}
    beside = {name: [*column, *[None] * 8] for name, column in beside.items()}
    columns = {"reward_mean": "0.25x20 1.25x28", "response_length_mean": "100x48", **beside}
    limit = (2 if rates else 1) * hidden * times
    found = run_check("REW003", thresholds={threshold: limit}, **columns)
    assert (found is not None) is fires
