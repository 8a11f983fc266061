from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


@pytest.mark.parametrize(
    ("dead", "severity"), [(5, None), (6, "warning"), (8, "warning"), (9, "error"), (10, "critical")]
)
def test_levels_over_ten_steps(dead: int, severity: str | None) -> None:
    found = run_check(
        "ADV003", {"group_size": 4}, groups=[10] * 20, zero_variance_groups=[dead] * 20, success_rate=[0.2] * 20
    )
    assert (found and found.severity) == severity
    if severity == "error":
        assert found is not None
        assert found.message == (
            "90.0% of the groups of the last 10 steps have rewards that are all equal, so they teach nothing "
            "(90.0% over the run; 41.1% expected for binary rewards at this success rate)."
        )


@pytest.mark.parametrize(
    "columns",
    [
        pytest.param({"success_rate": "0.9x30"}, id="solved by its success rate"),
        pytest.param({"reward_mean": "0.1x10 0.5x5 0.9x30"}, id="solved by its own rise"),
    ],
)
def test_a_solved_task_is_left_in_peace(columns: dict[str, Any]) -> None:
    n = sum(int(w.split("x")[1]) for w in next(iter(columns.values())).split())
    assert run_check("ADV003", zero_variance_share=[0.1] * (n - 30) + [0.95] * 30, **columns) is None


def test_unknown_reward_does_not_excuse() -> None:
    assert find("ADV003", zero_variance_share="0.95x20").severity == "error"
