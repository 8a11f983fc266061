import pytest

from grpo_doctor.testing import find, run_check


def test_collapse_that_ends_at_skips_thrice() -> None:
    assert run_check("UPD006", valid_rate="1 0 1 0 1 1x9", update_applied="1 0 1 0 1 1x9") is None
    found = find("UPD006", valid_rate="1 0 1 0 1 0 1", update_applied="1 0 1 0 1 0 1")
    assert found.severity == "warning"
    assert found.message == (
        "Collapse alternates with skipped updates: 3 of 3 collapses ended at a skipped update (lag-1 autocorrelation "
        "-0.86)."
    )


def test_a_healthy_run_with_skips_is_not_flagged() -> None:
    assert run_check("UPD006", valid_rate="0.95x40", update_applied="1 0 1 1 0x6 1x30") is None


ALTERNATES = "1 0 1 0 1 0 1"


@pytest.mark.parametrize(
    ("valid", "applied", "fires"),
    [
        ("1 0.1 1 0.1 1 0.1 1", ALTERNATES, True),
        ("1 0.11 1 0.11 1 0.11 1", ALTERNATES, False),
        (ALTERNATES, "0 0 1 0 1 0 1", True),  # three updates
        (ALTERNATES, "0 0 0 0 1 0 1", False),
    ],
)
def test_thresholds_of_collapse_and_of_updates(valid: str, applied: str, fires: bool) -> None:
    assert (run_check("UPD006", valid_rate=valid, update_applied=applied) is not None) is fires


@pytest.mark.parametrize(("share", "fires"), [(0.75, True), (0.76, False)])
def test_three_of_four_collapses_that_end_at_a_skip(share: float, fires: bool) -> None:
    thresholds = {"ended_share": share, "autocorrelation": -1}
    found = run_check(
        "UPD006", thresholds=thresholds, valid_rate=f"1 0 {ALTERNATES}", update_applied=f"1 1 {ALTERNATES}"
    )
    assert (found is not None) is fires


def test_alternation_counts_by_itself_and_must_be_beyond_the_autocorrelation() -> None:
    found = find("UPD006", thresholds={"ended_share": 2}, valid_rate=ALTERNATES, update_applied=ALTERNATES)
    thresholds = {"ended_share": 2, "autocorrelation": found.evidence["lag"]}
    assert run_check("UPD006", thresholds=thresholds, valid_rate=ALTERNATES, update_applied=ALTERNATES) is None
