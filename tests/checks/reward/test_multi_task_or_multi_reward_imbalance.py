from typing import Any

import pytest

from grpo_doctor.testing import find, run_check

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
