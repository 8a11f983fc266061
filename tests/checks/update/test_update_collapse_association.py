from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


def alternating(times: int) -> dict[str, Any]:
    """A run in which every update is followed by a collapse and every skip by a healthy rollout, then rest."""
    return {
        "invalid_rate": " ".join(["0 1"] * times + ["0x6"]),
        "update_applied": " ".join(["1 0"] * times + ["0x6"]),
    }


def test_it_needs_five_updates_from_a_healthy_state() -> None:
    four = alternating(4)
    assert run_check("UPD001", fallback_rate=four["invalid_rate"], update_applied=four["update_applied"]) is None
    five = alternating(5)
    found = find("UPD001", fallback_rate=five["invalid_rate"], update_applied=five["update_applied"])
    assert (found.severity, found.confidence, found.detected_step) == ("error", "medium", 15)
    assert found.message == (
        "A collapsed rollout followed 5 of 5 updates, but only 0 of 10 steps without an update. "
        "Among transitions from healthy steps, the counts are 5 of 5 and 0 of 5 (Fisher p = 0.004)."
    )


def test_collapses_after_skips_are_held_against_it() -> None:
    """With one collapse after a skip, p rises to 0.024 and nothing is reported."""
    rates = " ".join(["0 1"] * 5 + ["0 1 0x4"])
    updates = " ".join(["1 0"] * 5 + ["0x6"])
    assert run_check("UPD001", fallback_rate=rates, update_applied=updates) is None


@pytest.mark.parametrize(
    "columns",
    [
        pytest.param({"fallback_rate": "0.05x60", "update_applied": "1x60"}, id="healthy, every step updates"),
        pytest.param({"fallback_rate": "0 1x59", "update_applied": "1x60"}, id="collapsed for good: no other row"),
        pytest.param({"fallback_rate": "0.1x60", "update_applied": "1 1 0 1 1 0x55"}, id="healthy, some skips"),
    ],
)
def test_it_stays_silent(columns: dict[str, Any]) -> None:
    assert run_check("UPD001", **columns) is None


def test_the_reward_decides_if_validity_is_unknown() -> None:
    rewards, updates = " ".join(["0.8 0.1"] * 6 + ["0.8x9"]), " ".join(["1 0"] * 6 + ["0x9"])
    found = find("UPD001", reward_mean=rewards, update_applied=updates)
    assert found.severity == "error"


@pytest.mark.parametrize("evidence", ["p_value", "risk_ratio", "error_difference"])
def test_exactly_at_a_threshold(evidence: str) -> None:
    five = alternating(5)
    columns: dict[str, Any] = {"fallback_rate": five["invalid_rate"], "update_applied": five["update_applied"]}
    shown = find("UPD001", **columns).evidence
    value = {"p_value": shown["p"], "risk_ratio": shown["risk_ratio"], "error_difference": shown["risk_difference"]}[
        evidence
    ]
    found = run_check("UPD001", thresholds={evidence: value}, **columns)
    assert (found.severity if found else None) == {"p_value": None, "risk_ratio": "error", "error_difference": "error"}[
        evidence
    ]


def test_one_shift_of_twenty_that_does_as_well_is_exactly_the_limit() -> None:
    """A pattern of twenty steps that repeats: two of forty shifts reach the same statistic, which is 5%."""
    pattern = [1, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]
    updates = [*pattern, *pattern, 1]
    found = find("UPD001", fallback_rate=[0, *updates[:-1]], update_applied=updates)
    assert (found.evidence["shift_p"], found.last_step) == (0.05, 41)
