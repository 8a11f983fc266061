from typing import Any

import numpy as np
import pytest

from grpo_doctor import StepRecord, diagnose
from grpo_doctor.diagnosis.catalogue import Catalogue
from grpo_doctor.run import run_of
from grpo_doctor.testing import check_of, find, make_run, run_check


def noisy(level: float | np.ndarray, rows: int = 60, deviation: float = 0.02) -> list[float]:
    return list(level + np.random.default_rng(1).normal(0, deviation, rows))


def test_a_flat_reward_is_a_warning_at_the_fortieth_step() -> None:
    assert run_check("STL001", reward_mean=noisy(0.2, 39)) is None
    found = find("STL001", reward_mean=noisy(0.2, 60))
    assert (found.severity, found.onset_step, found.detected_step) == ("warning", 1, 40)
    assert found.message.startswith("The reward has not risen in 60 steps: 0.202")
    assert found.message.endswith("(smallest detectable gain: 0.02).")


def test_a_noise_that_would_hide_a_gain_proves_nothing() -> None:
    assert run_check("STL001", reward_mean=noisy(0.2, deviation=0.3)) is None


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"zero_variance_groups": "9x60", "groups": "10x60"}, "), and most rewards are equal within their group."),
        ({"truncated_rate": "0.9x60"}, "), and most responses are truncated."),
    ],
)
def test_without_signal_it_is_an_error(columns: dict[str, Any], words: str) -> None:
    found = find("STL001", reward_mean=noisy(0.2), **columns)
    assert (found.severity, found.message.endswith(words)) == ("error", True)


@pytest.mark.parametrize(("dead", "severity"), [("6x60", "warning"), ("7x60", "error")])
def test_a_fifth_of_groups_with_differing_rewards_is_not_an_error(dead: str, severity: str) -> None:
    assert find("STL001", reward_mean=noisy(0.2), zero_variance_groups=dead, groups="8x60").severity == severity


@pytest.mark.parametrize(
    ("columns", "severity", "words"),
    [
        ({"truncated_rate": "0.5x60"}, "warning", ")."),
        ({"truncated_rate": "0.51x60"}, "error", "), and most responses are truncated."),
        ({"zero_variance_share": "0.74x60"}, "warning", ")."),
        ({"zero_variance_share": "0.75x60"}, "error", "), and most rewards are equal within their group."),
    ],
)
def test_exactly_the_share_is_not_most(columns: dict[str, Any], severity: str, words: str) -> None:
    found = run_check("STL001", thresholds={"error_dead_share": 0.75}, reward_mean=noisy(0.2), **columns)
    assert found is not None
    assert (found.severity, found.message.endswith(words)) == (severity, True)


@pytest.mark.parametrize(("rewards", "fires"), [("0.5x10 ?x29 0.5", False), ("0.5x11 ?x28 0.5", True)])
def test_not_before_the_twelfth_reward(rewards: str, fires: bool) -> None:
    assert (run_check("STL001", reward_mean=rewards) is not None) is fires


@pytest.mark.parametrize(("times", "fires"), [(1, False), (1.01, True)])
def test_a_noise_that_leaves_room_for_exactly_such_a_gain(times: float, fires: bool) -> None:
    """Half of a scale of 0 to 1 is still available."""
    hidden = find("STL001", reward_mean="0.5x40").evidence["shown"]
    found = run_check("STL001", thresholds={"headroom_share": 2 * hidden * times}, reward_mean="0.5x40")
    assert (found is not None) is fires


@pytest.mark.parametrize(("share", "fires"), [(0.5, False), (0.51, True)])
def test_a_reward_that_starts_at_the_done_share_has_no_headroom(share: float, fires: bool) -> None:
    assert (run_check("STL001", thresholds={"done_share": share}, reward_mean="0.5x40") is not None) is fires


def test_below_a_top_of_nothing_there_is_always_room() -> None:
    """Penalties that were all avoided at first but are no longer."""
    found = run_check("STL001", thresholds={"silent_rewards": 41}, reward_mean="0x10 -10x5 -1x25")
    assert found is not None
    assert found.severity == "warning"


@pytest.mark.parametrize(
    ("rewards", "severity"), [("0x60", "error"), ("0x34 0.1 0.2x8 0x9 0x8", "error"), ("0x23 0.1x12 0.2x25", None)]
)
def test_a_reward_at_its_floor_is_never_earned(rewards: str, severity: str | None) -> None:
    found = run_check("STL001", reward_mean=rewards, reward_max="1x60")
    assert (found.severity if found and not found.cleared else None) == severity


@pytest.mark.parametrize(
    ("rewards", "severity", "message"),
    [
        ("0", "info", "The reward is 0 on the only step, so it gives no gradient."),
        ("-1", None, ""),
        ("-1x2", "info", "The reward is -1 on both steps, so it gives no gradient."),
        ("0x2", "info", "The reward is 0 on both steps, so it gives no gradient."),
        ("0x3", "warning", "The reward is 0 on all 3 steps, so it gives no gradient."),
        ("0x3 0.1", None, ""),
        ("0.5x9", None, ""),
    ],
)
def test_a_few_rewards_that_were_always_0(rewards: str, severity: str | None, message: str) -> None:
    found = run_check("STL001", reward_mean=rewards)
    assert (found.severity if found and not found.cleared else None) == severity
    assert found is None or found.cleared or found.message == message


@pytest.mark.parametrize(
    ("spread", "told"), [("0x122", "is 0 on all 122 steps"), ("0x99 0.05x23", "is at its minimum")]
)
def test_advantages_with_a_spread_are_a_gradient(spread: str, told: str) -> None:
    """A success rate may stand in the place of the reward that was trained on, as in a public log of 122 rows."""
    found = find("STL001", reward_mean="0x122", advantage_std=spread)
    assert (found.severity, told in found.message) == ("error", True)
    assert ("no gradient" in found.message) == ("all" in told)


def test_rows_that_are_ten_steps_apart_are_called_logged_steps() -> None:
    run = run_of([StepRecord(step=10 * i, reward_mean=0.0) for i in (1, 2, 3)])
    found = diagnose(run, catalogue=Catalogue([check_of("STL001")])).findings[0]
    assert found.message == "The reward is 0 on all 3 logged steps, so it gives no gradient."


@pytest.mark.parametrize(
    ("recorded", "fires"),
    [
        ({"reward_std": "1e-6x4"}, True),
        ({"reward_std": "2e-6x4"}, False),
        ({"reward_max": "0x4"}, True),
        ({"reward_max": "1x4"}, False),
    ],
)
def test_rewards_that_differ_within_a_batch_only_cancel(recorded: dict[str, Any], fires: bool) -> None:
    assert (run_check("STL001", reward_mean="0x4", **recorded) is not None) is fires


@pytest.mark.parametrize(
    ("rewards", "severity"),
    [
        ("0x4 0.2 0x6", None),
        ("0x4 0.2 0x7", "warning"),
        ("0x4 0.2 0x34", "warning"),
        ("0x4 0.2 0x35", "error"),
        ("0x4 0.2x4 0x12", None),  # one in five is rewarded
    ],
)
def test_one_success_among_twelve_rewards_is_almost_none(rewards: str, severity: str | None) -> None:
    found = run_check("STL001", reward_mean=rewards)
    assert (found.severity if found and not found.cleared else None) == severity


def test_the_headroom_is_what_a_single_response_could_get() -> None:
    assert run_check("STL001", reward_mean=noisy(-4.9), reward_max="-4.85x60") is None
    assert find("STL001", reward_mean=noisy(-4.9), reward_max="1x60").severity == "warning"


@pytest.mark.parametrize(
    "rewards",
    [
        pytest.param(np.linspace(0.2, 0.6, 60).tolist(), id="learns"),
        pytest.param([0.95] * 60, id="solved from the start"),
        pytest.param([0.2] * 39, id="too short"),
        pytest.param([*np.linspace(0.1, 0.6, 60).tolist(), *[0.1] * 40], id="collapsed, not stalled"),
    ],
)
def test_silent(rewards: list[float]) -> None:
    assert run_check("STL001", reward_mean=rewards) is None


def test_a_held_out_score_that_gains_is_learning() -> None:
    assert run_check("STL001", reward_mean=noisy(0.2), eval_score=noisy(np.linspace(0.1, 0.4, 60))) is None


def unscaled(rows: int) -> list[float]:
    """Rewards near -2, one of which was -1.7."""
    return [-1.7 if n == 20 else -2 + 0.1 * (-1) ** n for n in range(rows)]


@pytest.mark.parametrize(("share", "fires"), [(1.01, True), (0.99, False)])
def test_without_a_known_scale_the_spread_of_single_rewards_decides(share: float, fires: bool) -> None:
    evidence = find("STL001", reward_mean=unscaled(80), reward_std="0.25x80").evidence
    gain = evidence["level"] - evidence["first"] + evidence["shown"]
    assert 0.03 < gain < 0.25  # more than a tenth of the headroom
    found = run_check("STL001", reward_mean=unscaled(80), reward_std=[share * gain] * 80)
    assert (found is not None) is fires


def test_the_spread_decides_from_step_80() -> None:
    assert run_check("STL001", reward_mean=unscaled(79), reward_std="0.25x79") is None
    assert find("STL001", reward_mean=unscaled(80), reward_std="0.25x80").detected_step == 80


@pytest.mark.parametrize(("top", "fires"), [(-1.74, True), (-1.76, False)])
def test_no_stall_where_the_headroom_is_less_than_that(top: float, fires: bool) -> None:
    rewards = [top if reward == -1.7 else reward for reward in unscaled(90)]
    assert (run_check("STL001", reward_mean=rewards, reward_std="0.25x90") is not None) is fires


def test_the_spread_is_ignored_on_a_scale_of_0_to_1() -> None:
    rewards = [0.5 + 0.2 * (-1) ** n for n in range(90)]
    assert run_check("STL001", reward_mean=rewards, reward_std="0.2x90") is None
    assert run_check("STL001", reward_mean=[reward - 1 for reward in rewards], reward_std="0.2x90") is not None


@pytest.mark.parametrize(("highest", "fires"), [(-0.5, True), (-0.51, False)])
def test_the_headroom_must_be_as_large_as_the_spread(highest: float, fires: bool) -> None:
    rewards = "-1.25 -1.25 -0.75 -0.75 " * 20  # the first quarter's mean is -1
    found = run_check("STL001", reward_mean=rewards, reward_std="0.5x80", reward_max=[highest] * 80)
    assert (found is not None) is fires


def test_rows_without_a_count_of_zero_variance_groups_do_not_count_as_differing() -> None:
    dead = ["1" if row % 5 == 0 else "?" for row in range(60)]
    assert find("STL001", reward_mean=noisy(0.2), zero_variance_share=" ".join(dead)).severity == "error"


@pytest.mark.parametrize(("level", "fires"), [(0.009, True), (0.011, False)])
def test_a_single_reward_does_not_lift_a_level_that_is_nearly_0(level: float, fires: bool) -> None:
    """The measure is the mean of five rewards."""
    reward = [0.001 * (n % 2) for n in range(27)]
    reward[5:10] = [0.0, 0.0, 5 * level, 0.0, 0.0]
    found = find("STL001", reward_mean=reward)
    assert ("nearly 0 on all 27 steps" in found.message) is fires


@pytest.mark.parametrize(
    ("kl", "severity", "why"),
    [
        ("0.001x5 0.005x55", "error", "so it gives no gradient"),  # a KL of 0.005 is no movement
        (
            "0.001x5 0.006x55",
            "warning",
            "but the KL to the reference has risen to 0.006, so another reward or term moves the policy",
        ),
        ("0.5x60", "error", "so it gives no gradient"),  # the KL has not risen
    ],
)
def test_a_rising_kl_contradicts_a_reward_without_a_gradient(kl: str, severity: str, why: str) -> None:
    found = find("STL001", reward_mean="0x60", kl=kl)
    assert (found.severity, found.message) == (severity, f"The reward is 0 on all 60 steps, {why}.")
    constant = run_check("REW001", reward_mean="0x60", kl=kl)
    assert (constant is not None and not constant.cleared) is (severity == "error")
    run = make_run(reward_mean="0x60", kl=kl)
    assert diagnose(run).verdict == {"error": "failing", "warning": "suspect"}[severity]
