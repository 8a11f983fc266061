from typing import Any

import pytest

from grpo_doctor import Finding
from grpo_doctor.testing import run_check

GAPS = [[[0.0, 0.1], [0.0, 1.0]]] * 10  # two groups with differing rewards per step, gaps 0.1 and 1.0


def run(rewards: list[Any] = GAPS, size: float = 1.0, k: int = 2, rows: int = 14) -> Finding | None:
    return run_check(
        "ADV002",
        {"group_size": k},
        group_rewards=(rewards * 2)[:rows],
        advantage_abs_values=[[1.0, size]] * rows,
    )


def test_one_size_for_gaps_that_vary() -> None:
    found = run(rows=12)
    assert found is not None
    assert (found.severity, found.onset_step, found.detected_step) == ("warning", 10, 12)
    assert found.message == (
        "All advantages in 20 groups have the same size (1), although the reward differences vary (coefficient of "
        "variation 0.82)."
    )


@pytest.mark.parametrize(
    ("case", "severity"),
    [
        ({"k": 4}, "info"),
        ({"k": 3}, "warning"),
        ({"rewards": [[[0.0, 1.0], [0.0, 3.0]]] * 10}, None),  # a coefficient of variation of exactly 0.5
        ({"size": 0.98}, None),  # sizes differ by more than 2%
        ({"size": 1 / 1.02}, "warning"),
        ({"rows": 11}, None),  # held on two rows only
        ({"rewards": [[[0.0, 1.0], [0.0, 1.0]]] * 10}, None),  # one gap: nothing is lost
        ({"rewards": [[[0.0, 1e-8], [0.0, 1.0]]] * 10}, None),  # a gap of 1e-8 does not count as differing
        ({"rewards": [[[0.0, 0.1], [0.0, 1.0]]] * 9 + [[[0.0, 1.0], [1.0, 1.0]]]}, None),  # 19 live groups
    ],
)
def test_boundary(case: dict[str, Any], severity: str | None) -> None:
    found = run(**case)
    assert (found.severity if found else None) == severity
