from typing import Any

import pytest

from grpo_doctor.diagnosis.examine import diagnose
from grpo_doctor.testing import find, make_run, run_check

NOTHING = {"advantage_min": "0", "advantage_max": "0"}


def rows(number: int, **columns: str) -> dict[str, Any]:
    return {name: f"{value}x{number}" for name, value in {**NOTHING, **columns}.items()}


@pytest.mark.parametrize(("number", "severity"), [(1, "info"), (2, "info"), (3, "warning"), (40, "warning")])
def test_it_is_a_warning_from_the_third_row(number: int, severity: str) -> None:
    found = find("ADV015", **rows(number))
    assert (found.severity, found.onset_step, found.cleared) == (severity, 1, False)


@pytest.mark.parametrize(("number", "severity"), [(19, "warning"), (20, "error")])
def test_it_is_an_error_where_rewards_differ_and_no_advantage_does(number: int, severity: str) -> None:
    found = find("ADV015", **rows(number, reward_mean="0.9", reward_min="0", reward_max="1"))
    assert found.severity == severity


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (rows(1), "The only row has no learning signal: every advantage is 0."),
        (
            rows(1, reward_mean="0.9", reward_min="0", reward_max="1"),
            "The only row has no learning signal: every advantage is 0 although rewards range from 0 to 1, so all responses "
            "within each group get the same reward.",
        ),
        (
            rows(1, reward_mean="0.9", reward_std="0.3"),
            "The only row has no learning signal: every advantage is 0 although rewards differ, so all responses "
            "within each group get the same reward.",
        ),
        (
            rows(1, reward_std="0.3", reward_min="0.5", reward_max="0.5"),  # the extremes of something else
            "The only row has no learning signal: every advantage is 0 although rewards differ, so all responses "
            "within each group get the same reward.",
        ),
        (
            rows(3, reward_mean="0", reward_min="0", reward_max="0"),
            "None of the 3 rows has a learning signal: every advantage is 0 and every reward is 0.",
        ),
        ({"reward_min": "1x4", "reward_max": "1x4"}, "None of the 4 rows has a learning signal: every reward is 1."),
        (
            {"reward_mean": "0.6x3", "reward_std": "0x3"},  # a spread within groups: 0.6 may be no reward of any
            "None of the 3 rows has a learning signal: all groups have zero variance.",
        ),
        (
            {"zero_variance_share": "1x3", "reward_min": "0 1 0", "reward_max": "0 1 0"},
            "None of the 3 rows has a learning signal: all groups have zero variance.",
        ),
        (
            {"zero_variance_groups": "8x3", "groups": "8x3"},
            "None of the 3 rows has a learning signal: all groups have zero variance.",
        ),
    ],
)
def test_message(columns: dict[str, Any], message: str) -> None:
    assert find("ADV015", **columns).message == message


@pytest.mark.parametrize(
    "columns",
    [
        {"advantage_min": "-0.001x3", "advantage_max": "0x3"},
        rows(3) | {"advantage_max": "0.7 0 0"},
        {"zero_variance_groups": "7x3", "groups": "8x3", "reward_std": "0x3"},  # groups that differ are counted
        {"advantage_min": "-1x3", "advantage_max": "1x3", "reward_std": "0x3"},  # a KL within the reward
        {"reward_max": "0x3"},  # the smallest is unknown
        {"reward_min": "0x3", "reward_max": "0.00001x3"},
    ],
)
def test_batches_with_a_learning_signal_are_not_flagged(columns: dict[str, Any]) -> None:
    assert run_check("ADV015", **columns) is None


def test_a_spread_of_a_millionth_counts_as_0() -> None:
    told = "None of the 20 rows has a learning signal: every advantage is 0 and every reward is 1e-06."
    found = find("ADV015", **rows(20, reward_min="0", reward_max="1e-6"))
    assert (found.severity, found.message) == ("warning", told)
    assert find("ADV015", reward_min="0x3", reward_max="1e-6x3").message.endswith("signal: every reward is 1e-06.")
    assert find("ADV015", reward_mean="0 1e-6 0", reward_std="0x3").severity == "warning"


def test_the_first_row_that_teaches_clears_it() -> None:
    assert find("ADV015", advantage_min="0x3 -1", advantage_max="0x3 1").cleared


def test_batches_of_one_response_have_no_spread_either() -> None:
    found = find("ADV015", reward_mean="0.1 0.4 0.2 0.3", reward_std="0x4")
    assert (found.severity, found.last_step, found.cleared) == ("info", 1, True)


def test_a_critic_may_learn_from_equal_rewards() -> None:
    assert run_check("ADV015", {"adv_estimator": "gae"}, reward_mean="0x5", reward_std="0x5") is None
    assert run_check("ADV015", {"adv_estimator": "grpo"}, reward_mean="0x5", reward_std="0x5") is not None


def test_a_reward_that_rises_proves_that_the_share_is_not_measured() -> None:
    assert find("ADV015", reward_mean="0.1x20 0.3x20 0.5x20 0.7x20", zero_variance_share="1x80").cleared


def test_a_proof_from_one_row_is_in_the_first_sentence() -> None:
    told = diagnose(make_run(None, **rows(1, reward_mean="0.9", reward_min="0", reward_max="1")))
    assert (told.verdict, told.cause) == ("unjudged", None)
    assert told.headline.startswith("The only row has no learning signal: every advantage is 0")


def test_it_explains_a_gradient_of_0() -> None:
    told = diagnose(make_run(None, **rows(3, grad_norm="0")))
    assert (told.verdict, told.cause) == ("suspect", "ADV015")
