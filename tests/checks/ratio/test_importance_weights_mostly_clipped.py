import pytest

from grpo_doctor.testing import find, run_check


def test_the_share_is_reported_with_its_onset() -> None:
    found = find("RAT010", weight_clip_fraction="0.01x10 0.4x10")
    assert (found.severity, found.onset_step) == ("warning", 11)
    assert found.message == "The importance weights of 40% of the tokens are truncated or masked."


@pytest.mark.parametrize(
    ("share", "severity"),
    [("0.3x9", None), ("0.31x9", "warning"), ("0.7x9", "warning"), ("0.71x9", "error"), ("0.02x40", None)],
)
def test_boundary(share: str, severity: str | None) -> None:
    found = run_check("RAT010", weight_clip_fraction=share)
    assert (found.severity if found else None) == severity


def test_it_begins_where_single_steps_leave_the_limit() -> None:
    assert find("RAT010", weight_clip_fraction="0x10 0.3x5 0.8x5").onset_step == 16
