import pytest

from grpo_doctor.testing import find, run_check


def test_calls_that_failed_and_became_rare_are_reported() -> None:
    found = find("GEN013", tool_calls_per_response="2x10 0.9x10", tool_failure_rate="0.4x20")
    assert (found.severity, found.onset_step) == ("warning", 11)
    assert found.message == (
        "Tool calls per response fell from a maximum of 2 to 0.9 after 40% of the calls failed."
    )  # fmt: skip


@pytest.mark.parametrize(
    ("calls", "failed", "fires"),
    [
        ("2x10 1x10", "0.3x20", True),
        ("2x10 1.01x10", "0.3x20", False),
        ("2x10 1x10", "0.29x20", False),
        ("0.5x10 0.2x10", "0.5x20", True),
        ("0.49x10 0.2x10", "0.5x20", False),
        ("2x10 0.5x10", "0.05x10 0.9x10", False),  # the few calls that are left fail, not those that were many
        ("2x20", "0.6x20", False),
        ("1x10 2x10", "0.4x10 0.1x10", False),
    ],
)
def test_boundary(calls: str, failed: str, fires: bool) -> None:
    assert (run_check("GEN013", tool_calls_per_response=calls, tool_failure_rate=failed) is not None) is fires
