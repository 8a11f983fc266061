import pytest

from grpo_doctor.testing import find, run_check

CALM = "0.4x20"
LEAPS = f"{CALM} 900 0.4x16 800 0.4x16 7e6 0.4x16"


def test_a_norm_that_leaps_again_and_again() -> None:
    finding = find("GRD009", grad_norm=LEAPS)
    assert (finding.severity, finding.kind, finding.onset_step, finding.detected_step) == ("warning", "outcome", 21, 55)
    assert finding.message == (
        "The gradient norm spiked 3 times to at least 100 times its recent median (maximum: 7e+06)."
    )


def test_a_run_that_learns_in_spite_of_it_is_reported() -> None:
    finding = find("GRD009", grad_norm=LEAPS, reward_mean=[0.2 + 0.005 * n for n in range(71)])
    assert (finding.severity, finding.kind) == ("info", "risk")


@pytest.mark.parametrize(
    ("norms", "fires"),
    [
        (f"{CALM} 900 0.4x16 900 0.4x40", False),  # twice
        (f"{CALM} 40x3 0.4x9", False),  # a hundred times the level, and not more
        (f"{CALM} 40.1x3 0.4x9", True),
        ("0.01x20 20x3 0.01x9", False),  # with mostly zero-variance groups
        ("0.01x20 20.1x3 0.01x9", True),
        (f"{CALM} 900 0.4x49 900 0.4x49 900", False),  # the first of them is a hundred rows back
        (f"{CALM} 900 0.4x49 900 0.4x48 900", True),
        ("0.4x19 900x3", False),  # no level is known yet
    ],
)
def test_exactly_at_a_threshold(norms: str, fires: bool) -> None:
    assert (run_check("GRD009", grad_norm=norms) is not None) is fires


def test_a_norm_that_drifts_is_silent() -> None:
    assert run_check("GRD009", grad_norm=[0.1 * 1.05**n for n in range(200)]) is None
