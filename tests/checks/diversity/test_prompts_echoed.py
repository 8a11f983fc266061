import pytest

from grpo_doctor.testing import find, run_check


def test_a_share_that_rises_is_reported_with_its_onset() -> None:
    found = find("DIV007", prompt_echo_rate="0x10 0.6x10")
    assert (found.severity, found.onset_step) == ("error", 11)
    assert found.message == "60% of the responses repeat their prompt (0% at the start)."


@pytest.mark.parametrize(
    ("share", "severity"),
    [
        ("0.02x20 0.2x10", None),
        ("0.02x20 0.21x10", "warning"),
        ("0.125x20 0.21x9", None),  # some models restate the question from the start
        ("0.25x20 0.4x9", "warning"),
        ("0x10 0.5x10", "warning"),
        ("0x10 0.51x10", "error"),
        ("0.9x40", None),
    ],
)
def test_boundary(share: str, severity: str | None) -> None:
    found = run_check("DIV007", prompt_echo_rate=share)
    assert (found.severity if found else None) == severity


@pytest.mark.parametrize(("share", "fires"), [("0.125x20 0.25x9", True), ("0.25x20 0.34x9", False)])
def test_boundary_of_the_rise(share: str, fires: bool) -> None:
    assert (run_check("DIV007", thresholds={"risen": 0.125}, prompt_echo_rate=share) is not None) is fires


def test_copies_in_a_run_that_learns_are_a_warning() -> None:
    rising = [0.1 + 0.01 * n for n in range(60)]
    assert find("DIV007", prompt_echo_rate="0x20 0.8x40", reward_mean=rising).severity == "warning"
