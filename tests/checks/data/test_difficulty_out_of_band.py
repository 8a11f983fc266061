from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


def dead(right: int, wrong: int, size: int = 8, rows: int = 24, groups: int = 20) -> dict[str, Any]:
    return {
        "groups": f"{groups}x{rows}",
        "all_correct_groups": f"{right}x{rows}",
        "all_wrong_groups": f"{wrong}x{rows}",
        "group_size": f"{size}x{rows}",
    }


def test_two_heaps() -> None:
    assert run_check("DAT001", **dead(6, 7, rows=21)) is None
    found = find("DAT001", **dead(6, 7))
    assert found.severity == "warning"
    assert found.message == (
        "30% of the prompts are always solved and 35% are never solved, so few prompts have a signal. "
        "At uniform difficulty, both shares together would be 1%."
    )


def test_silent() -> None:
    assert run_check("DAT001", **dead(6, 6)) is None  # 60% and not more
    assert run_check("DAT001", **dead(16, 1)) is None  # solved
    assert run_check("DAT001", **dead(9, 9, size=2)) is None  # pairs tie at any difficulty


@pytest.mark.parametrize(
    ("thresholds", "right", "wrong", "size", "fires"),
    [
        ({"settled_share": 0.5}, 4, 4, 8, False),
        ({"settled_share": 0.49}, 4, 4, 8, True),
        ({"each_side": 0.25}, 4, 8, 8, True),
        ({"each_side": 0.25}, 8, 4, 8, True),
        ({"each_side": 0.26}, 4, 8, 8, False),
        ({"each_side": 0.26}, 8, 4, 8, False),
        ({"excess": 0.75 - 2 * 0.5**8}, 6, 6, 8, False),  # half right: 8 responses tie with a chance of 2 * 0.5^8
        ({"excess": 0.74}, 6, 6, 8, True),
        ({}, 6, 6, 4, True),
        ({}, 6, 6, 3, False),
    ],
)
def test_exactly_at_a_threshold(thresholds: dict[str, float], right: int, wrong: int, size: int, fires: bool) -> None:
    found = run_check("DAT001", thresholds=thresholds, **dead(right, wrong, size, groups=16))
    assert (found is not None) is fires
