from __future__ import annotations

import numpy as np
import pytest

from grpo_doctor.series.reward_components import idle, parts_of


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("correct", [0.0] * 20, {"correct": True}),
        ("correct", [-1.0] * 20, {"correct": False}),
        ("soft_format", [0.0] * 17 + [0.5] * 3, {"soft_format": False}),
        ("soft_format", [0.0] * 16 + [0.5] * 4, {}),  # 80 % of the rows
        ("correct", [0.5] * 20, {}),  # a constant above 0
        ("length_penalty", [0.0] * 20, {}),  # never due
        ("kl", [0.0] * 20, {}),
    ],
)
def test_components_at_their_minimum(name: str, values: list[float], expected: dict[str, bool]) -> None:
    assert idle(parts_of([{name: value} for value in values])) == expected


def test_rows_without_components_and_values_that_are_not_numbers_are_left_out() -> None:
    rows = np.array([None, {"a": 1.0, "b": "text"}, {"a": 0.5}], object)
    parts = parts_of(rows)
    assert {name: values.tolist() for name, values in parts.items()} == {"a": [1.0, 0.5]}
    assert parts_of(None) == {}
