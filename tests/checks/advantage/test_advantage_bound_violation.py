from typing import Any

import pytest

from grpo_doctor.testing import run_check

GROUP = {"normaliser": "group", "group_size": 8}


def test_message() -> None:
    found = run_check("ADV007", GROUP, advantage_max="2.4x2 3.1x3")
    assert found is not None
    assert (found.severity, found.onset_step, found.detected_step) == ("error", 3, 5)
    assert found.message == "An advantage of 3.1 exceeds 2.65, the maximum for groups of 8."


@pytest.mark.parametrize(
    ("settings", "largest", "smallest", "expected"),
    [
        (GROUP, "2.6467x3", "?x3", None),  # sqrt(7) = 2.64575, and 0.001 of slack
        (GROUP, "2.6469x3", "?x3", "error"),
        (GROUP, "1x3", "-2.7x3", "error"),
        ({**GROUP, "advantage_ddof": 1}, "2.475x3", "?x3", None),
        ({**GROUP, "advantage_ddof": 1}, "2.477x3", "?x3", "error"),
        ({**GROUP, "normaliser": "batch"}, "5x3", "?x3", None),
        ({"group_size": 8}, "5x3", "?x3", "info"),
        ({"group_size": 8}, "7428x3", "?x3", "warning"),  # NeMo-RL#4161
        (GROUP, "7x2", "?x2", None),
        ({**GROUP, "group_size": 5}, "2.001x3", "?x3", None),  # exactly the bound and its slack
        ({**GROUP, "group_size": 2}, "1.1x3", "?x3", "error"),
        ({**GROUP, "group_size": 1}, "1.1x3", "?x3", None),
        ({"group_size": 5}, "20x3", "?x3", "info"),  # exactly ten times the bound
    ],
)
def test_boundary(settings: dict[str, Any], largest: str, smallest: str, expected: str | None) -> None:
    found = run_check("ADV007", settings, advantage_max=largest, advantage_min=smallest)
    assert (found.severity if found else None) == expected
