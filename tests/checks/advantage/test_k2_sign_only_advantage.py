from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


@pytest.mark.parametrize("size", [1.0, 0.7071])
def test_eight_live_steps_with_one_size(size: float) -> None:
    assert run_check("ADV001", {"group_size": 2}, advantage_abs_values=[[size]] * 7) is None
    found = find("ADV001", {"group_size": 2}, advantage_abs_values=[[size], [], [0.0]] * 8)
    assert found.severity == "warning"
    assert found.message == (
        "With two responses per prompt, advantages keep only their sign (in 8 of 8 steps with differing rewards). "
        "A group size of two does not by itself cause a collapse."
    )


@pytest.mark.parametrize(
    ("k", "values"),
    [(2, [[0.3], [0.7]] * 10), (4, [[1.0]] * 20), (8, [[0.4, 1.1, 2.0]] * 20), (2, [[]] * 20)],
)
def test_it_stays_silent(k: int, values: list[list[float]]) -> None:
    assert run_check("ADV001", {"group_size": k}, advantage_abs_values=values) is None


@pytest.mark.parametrize(
    ("thresholds", "columns", "severity"),
    [
        ({"sign_only_share": 0.75}, {"advantage_abs_values": [[0.7071]] * 6 + [[0.3]] * 2}, "warning"),
        ({}, {"advantage_abs_values": [[1e-6]] * 8 + [[0.7071]] * 8}, "warning"),
        ({"unit_distance": 0.25}, {"advantage_abs_values": [[1.25]] * 8}, None),
    ],
)
def test_exactly_at_a_threshold(thresholds: dict[str, float], columns: dict[str, Any], severity: str | None) -> None:
    found = run_check("ADV001", {"group_size": 2}, thresholds=thresholds, **columns)
    assert (found.severity if found else None) == severity
