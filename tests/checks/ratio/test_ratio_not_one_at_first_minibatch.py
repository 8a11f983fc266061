import pytest

from grpo_doctor.testing import find, run_check


def test_message() -> None:
    found = find("RAT003", ratio_first_minibatch="0x5 0.08x3")
    assert (found.severity, found.onset_step, found.detected_step) == ("error", 6, 8)
    assert found.message == (
        "Before any update the ratio of new to old policy is off by 0.08 on average, where it must be 1."
    )


@pytest.mark.parametrize(
    ("gap", "severity"),
    [
        ("0x9", None),
        ("0.01x9", None),
        ("0.011x2", None),
        ("0.011x3", "warning"),
        ("0.05x3", "warning"),
        ("0.051x3", "error"),
    ],
)
def test_boundary(gap: str, severity: str | None) -> None:
    found = run_check("RAT003", ratio_first_minibatch=gap)
    assert (found.severity if found else None) == severity
