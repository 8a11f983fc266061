import pytest

from grpo_doctor.testing import find, run_check


def test_calls_that_end_are_reported_with_their_highest_level() -> None:
    found = find("GEN010", tool_calls_per_response="4x20 0.4x3")
    assert (found.severity, found.onset_step, found.detected_step) == ("warning", 21, 22)
    assert (
        found.message == "The policy has stopped calling its tools: calls per response fell from a maximum of 4 to 0.4."
    )


@pytest.mark.parametrize(
    ("calls", "fires"),
    [
        ("4x20 0.4x1", False),  # one row does not count: the median of three is still 4
        ("4x20 0.4x2", True),
        ("4x20 0.41x9", False),
        ("0.5x20 0.05x2", True),
        ("0.49x20 0x9", False),  # a tool that was rarely used
        ("0x10 3x10 0x2", True),  # learnt, then lost
    ],
)
def test_boundary(calls: str, fires: bool) -> None:
    assert (run_check("GEN010", tool_calls_per_response=calls) is not None) is fires


def test_unused_tools_are_a_remark_if_the_reward_rises_and_an_error_if_it_falls() -> None:
    calls = "4x30 0.1x30"
    rising = [0.2 + 0.01 * n for n in range(60)]
    falling = [0.8] * 40 + [0.1] * 20
    assert find("GEN010", tool_calls_per_response=calls, reward_mean=rising).severity == "info"
    assert find("GEN010", tool_calls_per_response=calls, reward_mean=falling).severity == "error"


def test_evaluations_alone_are_enough() -> None:
    calls = [value for n in (5.0, 5.0, 4.9, 4.9, 0.07, 0.14) for value in (n, None, None)]
    assert find("GEN010", tool_calls_per_response=calls).onset_step == 13


def test_a_run_that_keeps_calling_tools_is_silent() -> None:
    assert run_check("GEN010", tool_calls_per_response="1 2 3 2 3 2x30") is None
