from typing import Any

import pytest

from grpo_doctor.testing import find, run_check, series


@pytest.mark.parametrize(("dead", "severity"), [(5, None), (6, "info"), (8, "warning"), (9, "error"), (10, "critical")])
def test_levels_over_ten_steps(dead: int, severity: str | None) -> None:
    found = run_check(
        "ADV003", {"group_size": 4}, groups=[10] * 20, zero_variance_groups=[dead] * 20, success_rate=[0.2] * 20
    )
    assert (found and found.severity) == severity
    if severity == "error":
        assert found is not None
        assert found.message == (
            "90.0% of the groups in the last 10 steps have identical rewards, so they contribute no gradient (90.0% "
            "over the whole run; 41.1% expected for binary rewards at this success rate)."
        )


@pytest.mark.parametrize(
    "columns",
    [
        pytest.param({"success_rate": "0.9x30"}, id="solved by its success rate"),
        pytest.param({"reward_mean": "0.1x10 0.5x5 0.9x30"}, id="solved by its own rise"),
    ],
)
def test_a_solved_task_is_not_flagged(columns: dict[str, Any]) -> None:
    n = sum(int(w.split("x")[1]) for w in next(iter(columns.values())).split())
    assert run_check("ADV003", zero_variance_share=[0.1] * (n - 30) + [0.95] * 30, **columns) is None


@pytest.mark.parametrize(
    ("share", "groups", "severity"),
    [
        pytest.param("0 1 " * 60 + "1x10", 1, "warning", id="ten ties of one group are chance"),
        pytest.param("0.5x120 1x12", 16, "critical", id="those of 160 groups are none"),
        pytest.param("0.9x30", 1, "error", id="it has always been so"),
    ],
)
def test_the_share_of_ten_steps_must_exceed_chance(share: str, groups: int, severity: str) -> None:
    found = find("ADV003", zero_variance_share=share, groups=f"{groups}x{len(series(share))}")
    assert found.severity == severity


def test_unknown_reward_does_not_excuse() -> None:
    assert find("ADV003", zero_variance_share="0.95x20").severity == "error"


NEARLY_BEST = {"reward_mean": "0x10 4x10 3x15", "zero_variance_share": "0.1x20 0.9x15"}
"""It ends at three quarters of its best mean, from the lowest as from 0."""


@pytest.mark.parametrize(
    ("thresholds", "columns", "severity"),
    [
        ({"most": 0.75}, {"zero_variance_share": "0.75x20"}, "warning"),
        ({}, {"reward_mean": "4x10 5x20", "zero_variance_share": "0.1x10 0.95x20"}, "warning"),  # it learns
        ({}, {"success_rate": "0.5x20", "zero_variance_share": "0.9x20"}, "warning"),
        ({}, {"success_rate": "0.49x20", "zero_variance_share": "0.9x20"}, "error"),
        ({"nearly": 0.75}, {"success_rate": "0.75x20", "zero_variance_share": "0.9x20"}, None),
        ({"nearly": 0.75}, {"success_rate": "0.74x20", "zero_variance_share": "0.9x20"}, "warning"),
        ({"solved": 0.75, "nearly": 1.5}, NEARLY_BEST, None),
        ({"solved": 0.76, "nearly": 1.5}, NEARLY_BEST, "warning"),
        ({"solved": 1.5, "nearly": 0.75}, NEARLY_BEST, None),
        ({"solved": 1.5, "nearly": 0.76}, NEARLY_BEST, "warning"),
    ],
)
def test_exactly_at_a_threshold(thresholds: dict[str, float], columns: dict[str, Any], severity: str | None) -> None:
    found = run_check("ADV003", thresholds=thresholds, **columns)
    assert (found.severity if found else None) == severity


@pytest.mark.parametrize(("reward", "expected"), [("0x20", "100.0%"), ("1x20", "100.0%")])
def test_the_expected_share_at_success_rates_of_0_and_1(reward: str, expected: str) -> None:
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


@pytest.mark.parametrize(("dead", "severity"), [(0.75, "info"), (0.76, "warning")])
def test_a_run_that_learns_from_the_other_groups_gets_a_remark(dead: float, severity: str) -> None:
    risen = [0.2, 0.21] * 8 + [0.41] * 4 + [0.33, 0.34] * 10  # it has gained, and is not at its best
    shares, limit = [0.1] * 15 + [dead] * 25, {"most": 0.75}
    found = find("ADV003", zero_variance_share=shares, reward_mean=risen, reward_max=[1.0] * 40, thresholds=limit)
    assert found.severity == severity


@pytest.mark.parametrize(
    ("best", "dead", "holds"),
    [
        pytest.param(0.0, 0.85, True, id="nobody was ever paid"),
        pytest.param(0.1, 0.85, False, id="the best is a reward"),
        pytest.param(0.0, 0.2, False, id="groups differed before, and taught"),
    ],
)
def test_a_rise_to_a_reward_of_0_in_groups_that_never_differed(best: float, dead: float, holds: bool) -> None:
    reward = [best - 0.5 + row / 100 for row in range(50)] + [best] * 30
    found = run_check("ADV003", reward_mean=reward, zero_variance_share=[dead] * 50 + [0.95] * 30)
    assert (found is not None and found.severity == "warning" and not found.cleared) is holds
    if holds:
        assert found is not None
        assert found.message.endswith("; the mean reward was never above 0.")


@pytest.mark.parametrize(
    ("dead", "fires"),
    [
        ("1x2 0.75x10", False),  # lately
        ("1x2 0.76x10", True),
        ("0.5 1 0.5 1 0.5 1 0.5 1", False),  # over the run
        ("0.52 1 0.52 1 0.52 1 0.52 1", True),
    ],
)
def test_fires_on_zero_variance_over_recent_rows_or_the_whole_run(dead: str, fires: bool) -> None:
    limits = {"all_but_all": 0.75, "rows": 1}
    found = run_check("ADV003", zero_variance_share=dead, success_rate=[0.9] * len(series(dead)), thresholds=limits)
    assert (found is not None) is fires


@pytest.mark.parametrize(
    ("dead", "kind"),
    [
        ("0.5 1 0.5 1 0.5 1", "outcome"),  # over the run
        ("0.49 1 0.49 1 0.49 1", "risk"),  # on half of the rows
        ("0.25x2 0.76x4", "outcome"),  # on most rows
        ("0.25x2 0.75x3 0.76", "outcome"),
        ("0.25x3 0.76x3", "risk"),
    ],
)
def test_it_is_an_outcome_where_it_lasts(dead: str, kind: str) -> None:
    assert find("ADV003", zero_variance_share=dead, thresholds={"most": 0.75, "rows": 1}).kind == kind


def test_the_onset_is_where_more_than_half_of_the_groups_had_zero_variance() -> None:
    limits = {"rows": 1, "most": 0.75}
    assert find("ADV003", zero_variance_share="0.5x4 0.6x4 0.9x8", thresholds=limits).onset_step == 5
