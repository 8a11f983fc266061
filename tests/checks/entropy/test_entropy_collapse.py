from typing import Any

import pytest

from grpo_doctor import diagnose
from grpo_doctor.run import run_of
from grpo_doctor.testing import records_of, run_check

FLAT = "0.3 0.31 0.29 0.3 0.31 0.3 0.29 0.31 0.3 0.3 0.31 0.29"
RISE = "0.1 0.15 0.2 0.26 0.3 0.34 0.41 0.45 0.5 0.55 0.61 0.66"
SPENT = "1.0x7 0.099x5"
NOISY = " ".join(["0.28 0.31 0.3 0.32 0.29"] * 8)


def severity(**columns: Any) -> str | None:
    found = run_check("ENT001", **columns)
    return found.severity if found else None


def test_one_row_before_and_at_the_boundary() -> None:
    assert run_check("ENT001", entropy_mean="1.0x7 0.099x2 0.1x3", reward_mean=FLAT) is None
    found = run_check("ENT001", entropy_mean="1.0x7 0.099x3 0.1x2", reward_mean=FLAT)
    assert found is not None
    assert (found.severity, found.onset_step, found.detected_step) == ("warning", 8, 10)
    assert found.message == "Entropy is 0.099 nats/token (1 on the first row)."


@pytest.mark.parametrize(
    ("entropy", "severe"),
    [
        ("1.0x6 0.049x8", "warning"),  # on 6 of 12, 7 of 13 and 8 of 14 rows: below half on the third last
        ("1.0x6 0.049x9", "error"),
        ("1.0x6 0.05x20", None),
        ("1x1 0.04x10", "warning"),  # on the third last row there were nine
        ("1x1 0.04x11", "error"),
    ],
)
def test_no_entropy_for_most_of_a_run_that_gained_nothing_is_an_error(entropy: str, severe: str | None) -> None:
    rows = sum(int(part.split("x")[1]) for part in entropy.split())
    found = run_check(
        "ENT001", {}, entropy_mean=entropy, reward_mean=f"0.3x{rows}", thresholds={"spent_below_share": 0.01}
    )
    assert (found.severity if found else None) == severe
    if found and severe == "error":
        assert found.message.endswith(" nats/token (1 on the first row), and the reward has not increased.")


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"entropy_mean": SPENT}, "info"),
        ({"entropy_mean": SPENT, "reward_mean": FLAT}, "warning"),
        ({"entropy_mean": SPENT, "reward_mean": RISE}, None),
        ({"entropy_mean": "0.03x12", "reward_mean": RISE}, "info"),
        ({"entropy_mean": "0.1x12", "reward_mean": FLAT}, None),
        ({"entropy_mean": "1.0x3 0.01x9"}, "info"),
        ({"entropy_mean": "1.0x10 0.01x6", "reward_mean": "0.8x10 0.1x6"}, "error"),
        ({"entropy_mean": "0.14x3 0.01x9", "reward_mean": FLAT}, "warning"),
        ({"entropy_mean": "0.16x3 0.01x9", "reward_mean": FLAT}, "error"),
        ({"entropy_mean": "0.15x12", "reward_mean": FLAT}, None),
        ({"entropy_mean": "1.0x2 0.05x10", "reward_mean": FLAT}, "warning"),
        ({"entropy_mean": "1.0x2 0.049x10", "reward_mean": FLAT}, "error"),
        ({"entropy_mean": "0.9x4 0x8", "reward_mean": FLAT, "truncated_rate": "0.5x4 1x8"}, None),
        ({"entropy_mean": "-90x12", "reward_mean": FLAT}, None),
        ({"entropy_mean": SPENT, "reward_mean": "0.95x12"}, None),
        ({"entropy_mean": "0.5x5 0.04x25", "reward_mean": "0.79x30"}, "error"),
        ({"entropy_mean": "0.5x5 0.04x25", "reward_mean": "0.8x30"}, None),
        ({"entropy_mean": "0.5x5 0.04x25", "reward_mean": "1.9x30", "reward_max": "2.5x30"}, "error"),
        ({"entropy_mean": "0.5x5 0.04x25", "reward_mean": "2x30", "reward_max": "2.5x30"}, None),
    ],
)
def test_low_entropy_is_judged_with_the_other_metrics(columns: dict[str, Any], expected: str | None) -> None:
    assert severity(**columns) == expected


def test_low_from_the_start_reports_that_no_update_caused_it() -> None:
    found = run_check("ENT001", entropy_mean="0.032 0.059 0.05 0.055", reward_mean="0.5 0.51 0.44 0.52")
    assert found is not None
    assert (found.severity, found.onset_step) == ("warning", 1)
    assert found.message.endswith(" on the first row, before any update).")


def test_a_stall_from_the_first_step_is_not_explained_by_a_later_collapse() -> None:
    columns = {"entropy_mean": "1.0x10 0.04x30", "reward_mean": NOISY, "zero_variance_share": "0.3x5 0.9x35"}
    diagnosis = diagnose(run_of(records_of(1, **columns), "test"))
    assert (diagnosis.verdict, diagnosis.cause) == ("failing", "STL001")
    assert "ause (" not in diagnosis.headline


def test_the_onset_is_below_three_tenths_of_the_first_row() -> None:
    found = run_check(
        "ENT001", thresholds={"spent_below_share": 0.125}, entropy_mean="1 0.375x3 0.04x5", reward_mean="0.3x9"
    )
    assert found is not None
    assert found.onset_step == 5


def test_a_log_that_begins_late_does_not_show_the_state_before_any_update() -> None:
    for first_step, ends in ((1, "before any update)."),
                             (382, "after updates that are not in the log).")):  # fmt: skip
        found = diagnose(run_of(records_of(first_step, entropy_mean="0.01x10"), "test")).finding("ENT001")
        assert found is not None
        assert found.message == f"Entropy is 0.01 nats/token (0.01 on the first row, {ends}"


def test_an_entropy_of_0_throughout_is_a_placeholder() -> None:
    assert run_check("ENT001", entropy_mean="0x30", reward_mean="0.3x30") is None
    assert run_check("ENT001", entropy_mean="0.5x5 0x25", reward_mean="0.3x30") is not None


@pytest.mark.parametrize(("dead", "severity"), [("0.49x30", "info"), ("0.5x30", "warning"), ("?x30", "warning")])
def test_low_from_the_start_with_live_groups_is_an_info(dead: str, severity: str) -> None:
    columns: dict[str, Any] = {"entropy_mean": "0.04x30", "reward_mean": "0.3x30", "zero_variance_share": dead}
    for code in ("ENT001", "ENT012"):
        found = run_check(code, **columns)
        assert found is not None
        assert found.severity == severity


@pytest.mark.parametrize(
    ("entropy", "expected"),
    [("0.74x1 0.25x11", "warning"), ("0.75x1 0.25x11", None), ("0.75x1 0.01x11", "error")],
)
def test_a_run_begins_low_below_half_more_than_what_is_low(entropy: str, expected: str | None) -> None:
    found = run_check("ENT001", entropy_mean=entropy, reward_mean=FLAT, thresholds={"low_start_nats": 0.5})
    assert (found.severity if found else None) == expected


@pytest.mark.parametrize(("rows", "expected"), [(13, "warning"), (14, "info")])
def test_live_groups_count_from_the_tenth_reward(rows: int, expected: str) -> None:
    found = severity(entropy_mean=[0.04] * rows, reward_mean=[0.3] * rows, zero_variance_share=[0.25] * rows)
    assert found == expected  # the warning is over five rows after the ninth
