from typing import Any

import pytest

from grpo_doctor.testing import find, run_check, series

UP = [0.5 + 0.02 * i for i in range(30)]
DOWN = [0.4 * (1 - i / 29) + 0.002 * (i % 2) for i in range(30)]
MESSAGE = "A reward function or task has lost more than half of its best"


@pytest.mark.parametrize(
    "columns",
    [
        pytest.param({"reward_components": [{"a": u, "b": d} for u, d in zip(UP, DOWN, strict=True)]}, id="components"),
        pytest.param(
            {"by_task": [{"x": {"reward_mean": u}, "y": {"reward_mean": d}} for u, d in zip(UP, DOWN, strict=True)]},
            id="tasks",
        ),
    ],
)
def test_one_part_pays_for_the_other(columns: dict[str, Any]) -> None:
    assert run_check("REW007", reward_mean=UP[:19], **{k: v[:19] for k, v in columns.items()}) is None
    found = find("REW007", reward_mean=UP, **columns)
    assert found.severity == "warning"
    assert found.message.startswith(MESSAGE)


def test_parts_that_rise_or_stay() -> None:
    parts = [{"a": u, "format": 1.0, "never": 0.0} for u in UP]
    assert run_check("REW007", reward_mean=UP, reward_components=parts) is None


@pytest.mark.parametrize(("name", "fires"), [("disagreement_penalty", False), ("correct", True)])
def test_a_penalty_that_grows_is_the_price_of_the_others(name: str, fires: bool) -> None:
    parts = [{"a": u, name: d - 0.45} for u, d in zip(UP, DOWN, strict=True)]
    assert (run_check("REW007", reward_mean=UP, reward_components=parts) is not None) == fires


def test_when_the_whole_reward_falls_it_is_no_imbalance() -> None:
    assert run_check("REW007", reward_mean=DOWN, reward_components=[{"b": d} for d in DOWN]) is None


def test_format_that_buys_off_accuracy_at_the_same_total() -> None:
    accuracy = [max(0.0, 0.4 - 0.02 * i) + 0.002 * (i % 2) for i in range(40)]
    layout = [0.5 * min(1, 0.2 + 0.05 * i) for i in range(40)]
    found = find(
        "REW007",
        reward_mean=[a + b for a, b in zip(accuracy, layout, strict=True)],
        reward_components=[{"accuracy": a, "format": b} for a, b in zip(accuracy, layout, strict=True)],
    )
    assert (found.severity, found.cleared) == ("warning", False)


def test_it_judges_from_the_twentieth_row_on() -> None:
    assert find("REW007", reward_mean=UP, reward_components=[{"b": d} for d in DOWN]).onset_step == 20


def test_a_reward_at_its_lowest_is_held_up_by_no_part() -> None:
    assert run_check("REW007", reward_mean="0.5x30", reward_components=[{"b": d} for d in DOWN]) is None


def test_as_many_standard_errors_as_asked_for_are_not_more() -> None:
    """Those of row 27 are exceeded on rows 28, 29 and 30, and three rows are needed."""
    parts = [{"b": d} for d in DOWN]
    thresholds = {"sigmas": find("REW007", reward_mean=UP[:27], reward_components=parts[:27]).evidence["worst"]}
    assert run_check("REW007", thresholds=thresholds, reward_mean=UP[:29], reward_components=parts[:29]) is None
    assert run_check("REW007", thresholds=thresholds, reward_mean=UP, reward_components=parts) is not None


@pytest.mark.parametrize(("part", "fires"), [("1x20 0.5x10", False), ("1x20 0.49x10", True), ("1e-200x20 0x10", False)])
def test_a_part_must_lose_more_than_half_of_more_than_nothing(part: str, fires: bool) -> None:
    components = [{"b": value} for value in series(part)]
    assert (run_check("REW007", reward_mean=UP, reward_components=components) is not None) is fires


@pytest.mark.parametrize(("flat", "fires"), [(0.25, True), (0.24, False)])
def test_a_reward_that_fell_by_no_more_than_so_much_of_its_level_is_flat(flat: float, fires: bool) -> None:
    """Its mean of five rows goes from 1 to 0.75, far beyond its noise."""
    reward = "1x20 " + "0.6875 0.8125 0.75x3 " * 2
    components = [{"b": value} for value in series("1x22 0x8")]
    found = run_check("REW007", thresholds={"level_share": flat}, reward_mean=reward, reward_components=components)
    assert (found is not None) is fires


@pytest.mark.parametrize(("part", "fires"), [(0.02, False), (0.03, True)])
def test_what_is_lost_must_count_in_the_whole(part: float, fires: bool) -> None:
    parts = [{"a": u, "tiny": part * d / 0.4} for u, d in zip(UP, DOWN, strict=True)]
    assert (run_check("REW007", reward_mean=[1.0 + 0.01 * u for u in UP], reward_components=parts) is not None) is fires
