from typing import Any

import numpy as np
import pytest

from grpo_doctor.testing import find, run_check


def test_a_flat_reward_is_a_warning_at_the_fortieth() -> None:
    assert run_check("STL001", reward_mean="0.05 0.06x40") is None
    found = find("STL001", reward_mean="0.05 0.06x41")
    assert (found.severity, found.onset_step, found.detected_step) == ("warning", 40, 42)
    assert found.message == "The reward has not moved in 42 rewards: 0.0595 at the start, 0.06 now."


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"zero_variance_groups": "9x60", "groups": "10x60"}, "now, and most groups are dead."),
        ({"truncated_rate": "0.9x60"}, "now, and most responses are cut off."),
    ],
)
def test_without_signal_it_is_an_error(columns: dict[str, Any], words: str) -> None:
    found = find("STL001", reward_mean="-0.1x60", **columns)
    assert found.severity == "error"
    assert found.message.endswith(words)


@pytest.mark.parametrize(("dead", "severity"), [("6x60", "warning"), ("7x60", "error")])
def test_a_fifth_of_live_groups_leaves_hope(dead: str, severity: str) -> None:
    found = find("STL001", reward_mean="-0.1x60", zero_variance_groups=dead, groups="8x60")
    assert found.severity == severity


def test_the_scale_of_rewards_below_minus_one_is_their_spread() -> None:
    learns = (-4.9 + 0.0015 * np.arange(100)).tolist()
    assert run_check("STL001", reward_mean=learns, reward_std="0.3x100") is None
    assert find("STL001", reward_mean="-4.9x100").severity == "info"  # no scale is known
    assert find("STL001", reward_mean="-4.9x100", reward_std="0.3x100").severity == "warning"
    slow = (-0.9 + 0.0004 * np.arange(100)).tolist()  # 0.04 of what may be a range of 1 or of 2: a clear gain
    assert run_check("STL001", reward_mean=slow) is None


@pytest.mark.parametrize(
    "rewards",
    [
        pytest.param(np.linspace(0.2, 0.6, 60).tolist(), id="learns"),
        pytest.param([0.9] * 60, id="solved from the start"),
        pytest.param((np.linspace(0.02, 0.06, 80)).tolist(), id="rare success that grows"),
        pytest.param([0.2] * 39, id="too short"),
        pytest.param([*np.linspace(0.1, 0.6, 60).tolist(), *[0.1] * 40], id="collapsed, not stalled"),
        pytest.param((0.002 * np.linspace(0.3, 0.7, 60)).tolist(), id="tiny rewards"),
    ],
)
def test_silent(rewards: list[float]) -> None:
    assert run_check("STL001", reward_mean=rewards, reward_max=[max(rewards)] * len(rewards)) is None


def test_a_gain_within_the_noise_proves_nothing() -> None:
    rewards = np.random.default_rng(0).normal(0.3, 0.3, 43).tolist()
    assert run_check("STL001", reward_mean=rewards[:41]) is None
    found = find("STL001", reward_mean=rewards)
    assert (found.severity, found.onset_step, found.detected_step) == ("info", 40, 42)
    assert found.message == ("The reward has not risen beyond its noise in 43 rewards: 0.245 at the start, 0.334 now.")


@pytest.mark.parametrize(
    "rewards",
    [
        pytest.param("30x20 40x30", id="rose"),
        pytest.param("30x30 -40x30", id="fell"),
        pytest.param("0.95x60", id="solved"),
    ],
)
def test_what_rose_fell_or_stands_high_is_no_open_question(rewards: str) -> None:
    found = run_check("STL001", reward_mean=rewards)
    assert found is None or found.cleared


def test_without_rewards_small_advantages_and_a_kl_that_does_not_rise() -> None:
    found = find("STL001", {"rows": "epochs"}, advantage_std="0.0063 0.0062 0.0062", kl="0.094 0.081 0.074")
    assert (found.severity, found.onset_step, found.detected_step) == ("warning", 3, 3)
    assert found.message == (
        "The policy is not learning: advantages stay at 0.0062, and its KL to the reference has not risen "
        "(0.094 at the start, 0.074 now)."
    )


@pytest.mark.parametrize(
    ("settings", "columns", "fired"),
    [
        ({}, {"advantage_std": "0.0062x42", "kl": "0.04x42"}, True),
        ({}, {"advantage_std": "0.0062x41", "kl": "0.04x41"}, False),  # the 40th is the first of three
        ({"rows": "epochs"}, {"advantage_std": "0.0062x2", "kl": "0.04x2"}, False),
        ({"rows": "epochs"}, {"advantage_std": "0.1x3", "kl": "0.04x3"}, False),
        ({"rows": "epochs"}, {"advantage_std": "0.008x2 0.0059", "kl": "0.04x3"}, False),  # changed by more than 25 %
        ({"rows": "epochs"}, {"advantage_std": "0.0062x3", "kl": "0.04 0.04 0.0441"}, False),  # it moves away
        ({"rows": "epochs"}, {"advantage_std": "0.0062x3", "kl": "0.04 0.04 0.0439"}, True),
        ({"rows": "epochs"}, {"advantage_std": "0.0062x3"}, False),
        ({"rows": "epochs"}, {"advantage_std": "0.0062x3", "kl": "0.04x3", "reward_mean": "0.5x3"}, False),
    ],
)
def test_boundary_without_rewards(settings: dict[str, Any], columns: dict[str, Any], fired: bool) -> None:
    assert (run_check("STL001", settings, **columns) is not None) == fired


@pytest.mark.parametrize(
    ("thresholds", "columns", "severity"),
    [
        ({"done": 0.0}, {"reward_mean": "0.25x42"}, None),
        ({"dead": 0.75}, {"reward_mean": "0.3x42", "zero_variance_share": "0.75x42"}, "warning"),
        ({"cut": 0.75}, {"reward_mean": "0.3x42", "truncated_rate": "0.75x42"}, "warning"),
        ({"gain": 0.0}, {"reward_mean": "0x42"}, "info"),
        ({}, {"reward_mean": "-1x42"}, "warning"),
        ({}, {"reward_mean": "0x21 0.01x21"}, "warning"),
        ({"gain": 10.0, "rows": 2, "early": 4}, {"reward_mean": "0.5x2 1 0.5x10"}, "warning"),
    ],
)
def test_exactly_at_a_threshold(thresholds: dict[str, float], columns: dict[str, Any], severity: str | None) -> None:
    found = run_check("STL001", thresholds=thresholds, **columns)
    assert (found.severity if found else None) == severity


@pytest.mark.parametrize("field", ["zero_variance_share", "truncated_rate"])
def test_exactly_most_is_not_most(field: str) -> None:
    shares: dict[str, Any] = {field: "0.75x42"}
    found = run_check("STL001", thresholds={"dead": 0.75, "cut": 0.75}, reward_mean="0.3x42", **shares)
    assert found is not None
    assert found.message.endswith("0.3 now.")


def test_exactly_a_quarter_smaller_and_exactly_so_much_further_is_still() -> None:
    found = run_check(
        "STL001", {"rows": "epochs"}, thresholds={"rise": 0.25}, advantage_std="0.0625x2 0.046875", kl="1x2 1.25"
    )
    assert found is not None


@pytest.mark.parametrize(
    ("successes", "severity"),
    [("0x50", "warning"), ("0x10 0.1 0x39", "info"), ("0x40 ?x10", "warning"), ("0x39 ?x11", "info")],
)
def test_a_run_that_never_succeeds_is_stalled_on_any_scale(successes: str, severity: str) -> None:
    rewards = ("-6.5 -6.6 -6.5 -6.4 -5.9 " * 10).strip()
    assert find("STL001", reward_mean=rewards, success_rate=successes).severity == severity
