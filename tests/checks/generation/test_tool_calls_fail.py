from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


def test_the_first_row_is_a_remark_and_the_second_a_warning() -> None:
    alone = find("GEN009", tool_failure_rate="0.8")
    assert (alone.severity, alone.kind) == ("info", "risk")
    both = find("GEN009", tool_failure_rate="0.8 0.6")
    assert (both.severity, both.kind, both.onset_step) == ("warning", "risk", 1)
    assert both.message == "70% of recent tool calls fail (70% over the whole run)."


@pytest.mark.parametrize(
    ("columns", "severity"),
    [
        ({"tool_failure_rate": "0.5x9"}, None),
        ({"tool_failure_rate": "0.51x9"}, "warning"),
        ({"tool_failure_rate": "0.25x20 0.74x5"}, None),  # most of the run was well
        ({"tool_failure_rate": "0.25x20 0.75x5"}, "warning"),  # a tool that has broken
        ({"tool_failure_rate": "0.4x5 0.6x5"}, None),  # half of the calls failed
        ({"tool_failure_rate": "0.4x5 0.6x6"}, "warning"),
        ({"tool_failure_rate": "1x10 0.5x5"}, "warning"),  # and is over
        ({"tool_failure_rate": "0.9x10", "reward_mean": "0x10"}, "warning"),
        ({"tool_failure_rate": "0.91x9", "reward_mean": "0x9"}, "warning"),
        ({"tool_failure_rate": "0.91x10", "reward_mean": "0x10"}, "error"),
        ({"tool_failure_rate": "0.91x10"}, "warning"),  # without a reward
    ],
)
def test_exactly_at_a_threshold(columns: dict[str, Any], severity: str | None) -> None:
    found = run_check("GEN009", **columns)
    assert (found.severity if found else None) == severity


@pytest.mark.parametrize(("rate", "kind"), [("0.9x6", "risk"), ("0.91x6", "outcome"), ("0.8x5 1x5", "risk")])
def test_tools_that_are_as_good_as_absent_are_what_the_run_suffers_from(rate: str, kind: str) -> None:
    assert find("GEN009", tool_failure_rate=rate).kind == kind


def test_onset_and_end_of_the_failures() -> None:
    found = find("GEN009", tool_failure_rate="0.5 1x9 0.5x5")
    assert (found.onset_step, found.last_step) == (2, 14)  # the last five of the 15 rows are at the threshold


def test_it_clears_once_the_calls_succeed() -> None:
    assert find("GEN009", tool_failure_rate="1x20 0.2x10").cleared


def test_a_run_that_learns_in_spite_of_failures_is_reported_and_not_flagged() -> None:
    rising = [0.1 + 0.01 * n for n in range(80)]
    some = find("GEN009", tool_failure_rate="0.7x80", reward_mean=rising)
    assert (some.severity, some.cleared) == ("info", False)
    always = find("GEN009", tool_failure_rate="0.95x80", reward_mean=rising)
    assert (always.severity, always.cleared) == ("warning", False)


def test_rows_without_a_call_are_left_out() -> None:
    assert run_check("GEN009", tool_failure_rate="1x9", tool_calls_per_response="0x9") is None
    both = find("GEN009", tool_failure_rate="1 0 1 0", tool_calls_per_response="2 0 3 0")
    assert both.message == "100% of recent tool calls fail (100% over the whole run)."
