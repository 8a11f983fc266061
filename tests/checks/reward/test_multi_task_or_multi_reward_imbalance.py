from typing import Any

import pytest

from grpo_doctor.diagnosis.examine import diagnose
from grpo_doctor.testing import find, make_run, run_check, series

UP = [0.5 + 0.02 * i for i in range(30)]
DOWN = [0.4 * (1 - i / 29) + 0.002 * (i % 2) for i in range(30)]


@pytest.mark.parametrize(
    ("columns", "part"),
    [
        ({"reward_components": [{"a": u, "b": d} for u, d in zip(UP, DOWN, strict=True)]}, "component b"),
        (
            {"by_task": [{"x": {"reward_mean": u}, "y": {"reward_mean": d}} for u, d in zip(UP, DOWN, strict=True)]},
            "task y",
        ),
    ],
)
def test_one_part_improves_at_the_expense_of_another(columns: dict[str, Any], part: str) -> None:
    assert run_check("REW007", reward_mean=UP[:19], **{k: v[:19] for k, v in columns.items()}) is None
    found = find("REW007", reward_mean=UP, **columns)
    assert found.severity == "warning"
    assert found.message == (f"The reward rose from 0.52 to 1.02, but its {part} fell far below its best value.")


def test_the_headline_names_the_part_that_fell() -> None:
    parts = [{"a": 2 * u, "b": d} for u, d in zip(UP, DOWN, strict=True)]
    told = diagnose(make_run(None, reward_mean=[sum(p.values()) for p in parts], reward_components=parts))
    assert (told.verdict, told.outcome) == ("suspect", "REW007")
    assert told.headline == "The reward rose from 1.43 to 2.08, but its component b fell far below its best value."


def test_parts_that_rise_or_stay() -> None:
    parts = [{"a": u, "format": 1.0, "never": 0.0} for u in UP]
    assert run_check("REW007", reward_mean=UP, reward_components=parts) is None


@pytest.mark.parametrize(("name", "fires"), [("disagreement_penalty", False), ("correct", True)])
def test_a_growing_penalty_is_not_an_imbalance(name: str, fires: bool) -> None:
    parts = [{"a": u, name: d - 0.45} for u, d in zip(UP, DOWN, strict=True)]
    assert (run_check("REW007", reward_mean=UP, reward_components=parts) is not None) == fires


def test_when_the_whole_reward_falls_it_is_not_an_imbalance() -> None:
    assert run_check("REW007", reward_mean=DOWN, reward_components=[{"b": d} for d in DOWN]) is None


def test_format_that_replaces_accuracy_at_the_same_total() -> None:
    accuracy = [max(0.0, 0.4 - 0.02 * i) + 0.002 * (i % 2) for i in range(40)]
    layout = [0.5 * min(1, 0.2 + 0.05 * i) for i in range(40)]
    found = find(
        "REW007",
        reward_mean=[a + b for a, b in zip(accuracy, layout, strict=True)],
        reward_components=[{"accuracy": a, "format": b} for a, b in zip(accuracy, layout, strict=True)],
    )
    assert (found.severity, found.cleared) == ("warning", False)
    told = "The reward as a whole is 0.501, but its component accuracy fell far below its best value."
    assert found.message == told


def test_it_judges_from_the_twentieth_row_on() -> None:
    dropped = [{"b": 0.4 if n < 14 else 0.05} for n in range(30)]
    assert find("REW007", reward_mean=UP, reward_components=dropped).onset_step == 20


def test_a_reward_at_its_lowest_is_held_up_by_no_part() -> None:
    assert run_check("REW007", reward_mean="0.5x30", reward_components=[{"b": d} for d in DOWN]) is None


def test_a_part_that_is_rarely_rewarded_has_not_fallen() -> None:
    """Only 3 of 60 batches contain well-formed responses, and the last of them is old, so nothing was lost."""
    paid = {8: 0.2, 9: 0.3, 21: 0.2}
    parts = [{"found": 1.0 + 0.05 * (i % 3), "valid": paid.get(i, 0.0)} for i in range(60)]
    whole = [p["found"] + p["valid"] for p in parts]
    assert run_check("REW007", reward_mean=whole, reward_components=parts) is None


@pytest.mark.parametrize(("part", "fires"), [("1x20 0.5x10", False), ("1x20 0.49x10", True), ("1e-200x20 0x10", False)])
def test_a_part_must_lose_more_than_half_of_more_than_nothing(part: str, fires: bool) -> None:
    components = [{"b": value} for value in series(part)]
    assert (run_check("REW007", reward_mean=UP, reward_components=components) is not None) is fires


@pytest.mark.parametrize(("flat", "fires"), [(0.25, True), (0.24, False)])
def test_a_reward_that_fell_by_at_most_this_share_of_its_level_is_flat(flat: float, fires: bool) -> None:
    """Its mean of five rows goes from 1 to 0.75, far beyond its noise."""
    reward = "1x20 " + "0.6875 0.8125 0.75x3 " * 2
    components = [{"b": value} for value in series("1x22 0x8")]
    found = run_check("REW007", thresholds={"level_share": flat}, reward_mean=reward, reward_components=components)
    assert (found is not None) is fires


@pytest.mark.parametrize(("part", "fires"), [(0.02, False), (0.03, True)])
def test_a_loss_must_matter_in_the_total_reward(part: float, fires: bool) -> None:
    parts = [{"a": u, "tiny": part * d / 0.4} for u, d in zip(UP, DOWN, strict=True)]
    assert (run_check("REW007", reward_mean=[1.0 + 0.01 * u for u in UP], reward_components=parts) is not None) is fires


@pytest.mark.parametrize(("whole", "fires"), [("49x10 50x20", False), ("48x10 49x20", True)])
def test_a_fiftieth_of_the_whole_is_not_a_loss(whole: str, fires: bool) -> None:
    components = [{"b": value} for value in series("1x20 0x10")]
    assert (run_check("REW007", reward_mean=whole, reward_components=components) is not None) is fires


@pytest.mark.parametrize(("best", "fires"), [(0.0, False), (0.1, True)])
def test_a_penalty_whose_best_is_exactly_nothing_was_never_given(best: float, fires: bool) -> None:
    components = [{"a": u, "length_penalty": best if row < 20 else -1.0} for row, u in enumerate(UP)]
    assert (run_check("REW007", reward_mean=UP, reward_components=components) is not None) is fires


@pytest.mark.parametrize(("now", "fires"), [("0.5x7", True), ("0.51x7", False)])
def test_a_part_at_half_of_its_highest_is_not_high(now: str, fires: bool) -> None:
    """Its last three rows do; a longer window has lost more than half."""
    components = [{"b": value} for value in series(f"1x20 0x9 {now}")]
    rising = [0.5 + 0.02 * row for row in range(36)]
    found = run_check("REW007", thresholds={"early_rewards": 32}, reward_mean=rising, reward_components=components)
    assert (found is not None) is fires
