from typing import Any

import pytest

from grpo_doctor import Finding, StepRecord, diagnose
from grpo_doctor.diagnosis.catalogue import Catalogue
from grpo_doctor.run import run_of
from grpo_doctor.testing import check_of, find, run_check


def test_solved_from_the_start_is_a_warning_at_the_twentieth_reward() -> None:
    assert run_check("REW001", reward_mean="1.0x19", reward_std="0x19") is None
    found = find("REW001", reward_mean="1.0x20", reward_std="0x20")
    assert found.severity == "warning"
    assert found.message == (
        "The reward has been 1 for 20 steps in a row: the task is solved and there is no signal left."
    )


def test_solved_while_it_trained_has_finished() -> None:
    found = find("REW001", reward_mean="0.2 0.4 0.6 0.8 0.9x10 0.99x20")
    assert (found.severity, found.detected_step) == ("info", 32)


@pytest.mark.parametrize(
    "columns",
    [
        pytest.param({"reward_mean": "0x20"}, id="zero"),
        pytest.param({"reward_mean": "0.3x20", "reward_std": "0x20"}, id="low, no spread"),
        pytest.param({"reward_mean": "-0.1x20", "reward_min": "-0.1x20", "reward_max": "-0.1x20"}, id="negative"),
        pytest.param({"reward_mean": "2.0x20", "success_rate": "0x20"}, id="form without success"),
    ],
)
def test_no_signal_is_an_error(columns: dict[str, Any]) -> None:
    found = find("REW001", **columns)
    assert found.severity == "error"
    assert found.message.endswith("all responses score the same, so there is no gradient.")


def test_a_log_with_a_row_every_ten_steps_is_judged_at_its_tenth_such_row() -> None:
    def rows(n: int) -> Finding | None:
        run = run_of([StepRecord(step=10 * i, reward_mean=0.0) for i in range(1, n + 1)])
        return next(iter(diagnose(run, catalogue=Catalogue([check_of("REW001")])).findings), None)

    found = rows(10)
    assert rows(9) is None
    assert found is not None
    assert found.message == (
        "The reward has been 0 for 10 logged steps in a row: all responses score the same, so there is no gradient."
    )


def test_a_constant_reward_far_below_an_earlier_one_gives_no_signal() -> None:
    columns: dict[str, Any] = {"reward_mean": "0.6x5 0.8x21", "reward_std": "0.2x5 0x21"}
    assert find("REW001", **columns, reward_max="0.8x26").severity == "warning"
    assert find("REW001", **columns, reward_max="1.0x5 0.8x21").severity == "error"


def test_penalties_that_are_all_avoided_are_not_dead() -> None:
    assert find("REW001", reward_mean="-0.6 -0.4 -0.2 0x21").severity == "warning"
    assert find("REW001", reward_mean="-0.6 -0.4 -0.2 -0.6x21").severity == "error"


def test_single_prompts_that_tie_by_chance_are_not_one_reward() -> None:
    mean, spread = " ".join(["0 1 1 0.5"] * 10), " ".join(["0 0 0 0.4"] * 10)  # three of four tie
    assert run_check("REW001", reward_mean=mean + " 1 0" * 12, reward_std=spread + " 0x24") is None
    assert find("REW001", reward_mean=mean + " 1 0" * 21, reward_std=spread + " 0x42").severity == "error"


def test_a_top_that_form_alone_reaches_is_not_solved() -> None:
    """No answer was correct, and the format reward is at its maximum."""
    parts = [{"format_reward": 1.0, "correctness_reward": 0.0}] * 20
    found = find("REW001", reward_mean="1.0x20", reward_std="0x20", reward_components=parts)
    assert found.severity == "error"
    assert found.message.endswith("all responses score the same, so there is no gradient.")


def test_equal_rewards_within_every_step_give_no_signal_at_any_level() -> None:
    assert find("REW001", reward_mean="3 5 -1 3 2 3x15", reward_std="0x20").severity == "warning"
    found = find("REW001", reward_mean="3x10 3 5 -1 3 2 3x5", reward_std="0x20")
    assert found.severity == "error"
    assert found.message == (
        "Every response within a step has had the same reward for 20 steps in a row: there is no gradient."
    )


def test_a_constant_of_unknown_scale_is_a_warning() -> None:
    assert find("REW001", reward_mean="2.5x20").severity == "warning"


@pytest.mark.parametrize(
    "columns",
    [
        pytest.param({"reward_mean": "0.7 0.71x10 0.69x10", "reward_std": "0.2x21"}, id="plateau with spread"),
        pytest.param({"reward_mean": "0.95x30", "reward_std": "0.1x30"}, id="below the top"),
        pytest.param({"reward_mean": "0x10 0.1 0.2 0x9", "reward_std": "0x10 0.3 0.4 0x9"}, id="sparse"),
    ],
)
def test_silent(columns: dict[str, Any]) -> None:
    assert run_check("REW001", **columns) is None


@pytest.mark.parametrize(
    ("thresholds", "columns", "severity"),
    [
        ({}, {"reward_mean": "0.3x21", "reward_std": [1e-6] * 21}, "error"),
        ({"low_below_share": 0.75}, {"reward_mean": "0.75x21", "reward_max": "1x21", "reward_std": "0x21"}, "warning"),
        (
            {"chance_probability": 0.5**20},
            {"reward_mean": "0.3x40", "reward_std": " ".join(["0 0.4"] * 10) + " 0x20"},
            "error",
        ),
        ({}, {"reward_mean": "0 0.3x22"}, "error"),
        ({}, {"reward_mean": "-0.1 5 0x22"}, "error"),
        ({}, {"reward_mean": "-2 0 -1x22"}, "error"),
        ({}, {"reward_mean": "0.5x20"}, "error"),
        ({"solved_from": 0.75}, {"reward_mean": "0.75x20", "reward_std": "0.2x20"}, "warning"),
        (
            {"solved_from": 0.75},
            {"reward_mean": " ".join(["2 3"] * 10), "reward_std": "0.2x20", "success_rate": "0.75x20"},
            "warning",
        ),
        ({"solved_from": 0.75}, {"reward_mean": "2.5x20", "success_rate": "0.25x20"}, "error"),
    ],
)
def test_exactly_at_a_threshold(thresholds: dict[str, float], columns: dict[str, Any], severity: str | None) -> None:
    found = run_check("REW001", thresholds=thresholds, **columns)
    assert (found.severity if found else None) == severity


def test_means_a_millionth_apart_are_one() -> None:
    found = find("REW001", reward_mean=[0.0, 1e-6] * 12, reward_std=[0.0] * 24)
    assert found.message.startswith("The reward has been 5e-07 for")


def test_it_began_with_the_first_of_the_equal_rewards() -> None:
    assert find("REW001", reward_mean="2 3 2x10 0x22").onset_step == 14


def test_four_rows_without_spread_and_gradient_prove_that_nothing_is_learnt() -> None:
    assert find("REW001", reward_mean="0x4", reward_std="1e-6x4", grad_norm="0x4").severity == "error"
    assert run_check("REW001", reward_mean="0x3", reward_std="0x3", grad_norm="0x3") is None
    assert run_check("REW001", reward_mean="0x4", reward_std="0x4", grad_norm="0x3 0.1") is None
