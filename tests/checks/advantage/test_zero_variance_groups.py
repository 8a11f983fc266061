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


@pytest.mark.parametrize(
    ("thresholds", "columns", "severity"),
    [
        ({"error_share": 0.75}, {"zero_variance_share": "0.75x20"}, "warning"),
        ({}, {"reward_mean": "4x10 5x20", "zero_variance_share": "0.1x10 0.95x20"}, "warning"),  # it learns
        ({"solved": 0.75}, {"reward_mean": "0x10 4x5 3x40", "zero_variance_share": "0.1x15 0.95x40"}, None),
    ],
)
def test_exactly_at_a_threshold(thresholds: dict[str, float], columns: dict[str, Any], severity: str | None) -> None:
    found = run_check("ADV003", thresholds=thresholds, **columns)
    assert (found.severity if found else None) == severity


@pytest.mark.parametrize(("reward", "expected"), [("0x20", "100.0%"), ("1x20", "100.0%")])
def test_what_is_expected_at_both_ends_of_success(reward: str, expected: str) -> None:
    found = run_check(
        "ADV003",
        {"group_size": 4},
        thresholds={"solved": 2.0, "nearly": 2.0},
        reward_mean=reward,
        zero_variance_share="1x20",
    )
    assert found is not None
    assert f"; {expected} expected for binary rewards" in found.message


@pytest.mark.parametrize(("right", "found"), [(0.8, "warning"), (1.6, None)])
def test_a_gain_of_form_alone_does_not_solve_a_task(right: float, found: str | None) -> None:
    form, answer = [0.2] * 10 + [0.6] * 40, [0.8] * 10 + [right] * 40
    parts = [{"format": f, "answer": a} for f, a in zip(form, answer, strict=True)]
    total = [f + a for f, a in zip(form, answer, strict=True)]
    told = run_check("ADV003", zero_variance_share="0.1x10 0.9x40", reward_mean=total, reward_components=parts)
    assert (told.severity if told else None) == found


@pytest.mark.parametrize(("dead", "severity"), [(0.8, "info"), (0.81, "warning")])
def test_a_run_that_learns_from_the_other_groups_gets_a_remark(dead: float, severity: str) -> None:
    risen = [0.2, 0.21] * 8 + [0.41] * 4 + [0.33, 0.34] * 10  # it has gained, and is not at its best
    found = find("ADV003", zero_variance_share=[0.1] * 15 + [dead] * 25, reward_mean=risen, reward_max=[1.0] * 40)
    assert found.severity == severity
