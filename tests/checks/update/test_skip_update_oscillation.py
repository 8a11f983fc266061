from grpo_doctor.testing import find, run_check


def test_collapse_that_ends_at_skips_thrice() -> None:
    assert run_check("UPD006", valid_rate="1 0 1 0 1 1x9", update_applied="1 0 1 0 1 1x9") is None
    found = find("UPD006", valid_rate="1 0 1 0 1 0 1", update_applied="1 0 1 0 1 0 1")
    assert found.severity == "warning"
    assert found.message == (
        "Collapse alternates with skipped updates: 3 of 3 collapses ended at a skip, and its lag-1 autocorrelation "
        "is -0.86."
    )


def test_a_healthy_run_with_skips_is_left_in_peace() -> None:
    assert run_check("UPD006", valid_rate="0.95x40", update_applied="1 0 1 1 0x6 1x30") is None
