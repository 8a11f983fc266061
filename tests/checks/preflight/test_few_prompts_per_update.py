import pytest

from grpo_doctor.testing import find, run_check


def test_message() -> None:
    assert find("CFG008", groups="3x3").message == "Each update uses only 3 prompts."


@pytest.mark.parametrize(
    ("groups", "severity"), [("8x9", None), ("7x2", None), ("7x3", "info"), ("4x3", "info"), ("3x3", "warning")]
)
def test_boundary(groups: str, severity: str | None) -> None:
    found = run_check("CFG008", groups=groups)
    assert (found.severity if found else None) == severity
