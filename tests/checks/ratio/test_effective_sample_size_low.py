import pytest

from grpo_doctor.testing import find, run_check


def test_the_share_is_reported_with_its_onset() -> None:
    found = find("RAT009", effective_sample_share="0.9x10 0.05x10")
    assert (found.severity, found.onset_step) == ("warning", 11)
    assert found.message == "The effective sample size is 5.0% of the batch: a few samples dominate each update."


@pytest.mark.parametrize(
    ("share", "severity"),
    [("0.1x9", None), ("0.099x9", "warning"), ("0.02x9", "warning"), ("0.019x9", "error"), ("0.95x40", None)],
)
def test_boundary(share: str, severity: str | None) -> None:
    found = run_check("RAT009", effective_sample_share=share)
    assert (found.severity if found else None) == severity


def test_it_begins_where_single_steps_leave_the_limit() -> None:
    assert find("RAT009", effective_sample_share="1x10 0.1x5 0.04x5").onset_step == 16
