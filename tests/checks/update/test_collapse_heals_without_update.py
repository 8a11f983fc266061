from typing import Any

from grpo_doctor.series import COLLAPSED
from grpo_doctor.testing import find, run_check


def test_three_collapses_must_end_without_an_update() -> None:
    assert run_check("UPD003", valid_rate="1 0 1 0 1", update_applied="1 0 1 0 1") is None
    found = find("UPD003", valid_rate="1 0 1 0 1 0 1", update_applied="1 0 1 0 1 0 1")
    assert (found.severity, found.confidence, found.onset_step) == ("error", "medium", 7)
    assert found.message == (
        "3 of 3 collapses ended without any change in the weights, so the cause is the generation state, not the weights."
    )


def test_at_least_four_of_five_must() -> None:
    healed = "1 0 1 0 1 0 1 0 1 0 1"
    assert find("UPD003", valid_rate=healed, update_applied="1 0 1 0 1 0 1 0 1 1 1").evidence["without"] == 4
    assert run_check("UPD003", valid_rate=healed[:17], update_applied="1 0 1 0 1 0 1 1 1") is not None
    assert run_check("UPD003", valid_rate=healed, update_applied="1 0 1 0 1 1 1 1 1 0 1") is None


def test_a_policy_that_recovers_by_training_is_not_flagged() -> None:
    assert run_check("UPD003", valid_rate="1 0 0.5 1 0 0.6 1 0 0.7 1x20", update_applied="1x29") is None


def test_exactly_collapsed_and_exactly_the_share_count() -> None:
    rates = [0.0, COLLAPSED, 0.0, COLLAPSED, 0.0, COLLAPSED, 0.0]
    assert run_check("UPD003", fallback_rate=rates, update_applied="1 0 1 0 1 0 1") is not None
    three_of_four: dict[str, Any] = {"valid_rate": "1 0 1 0 1 0 1 0 1", "update_applied": "1 1 1 0 1 0 1 0 1"}
    assert run_check("UPD003", None, thresholds={"ended_share": 0.75}, **three_of_four) is not None
