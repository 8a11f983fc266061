import pytest

from grpo_doctor.testing import find, run_check


def test_the_third_jump() -> None:
    assert run_check("UPD004", valid_rate="1 0 1 0 1", policy_movement_kl="0.001x5") is None
    found = find("UPD004", valid_rate="1 0 1 0 1 0", policy_movement_kl="0.001x6")
    assert (found.severity, found.detected_step) == ("error", 6)
    assert found.message == (
        "A further 100% of the responses became invalid in one step (3 times so far). The previous update moved "
        "the policy by only 0.001 nats/token."
    )


def test_a_policy_that_moved_may_collapse() -> None:
    assert run_check("UPD004", valid_rate="1 0 1 0 1 0", policy_movement_kl="0.02x6") is None


def test_an_unrecorded_movement_does_not_affect_the_next_step() -> None:
    sparse = "0.001 nan 0.001 nan 0.001 nan"
    assert run_check("UPD004", valid_rate="1 1 1 1 1 1", policy_movement_kl=sparse) is None
    assert run_check("UPD004", valid_rate="0 1 0 1 0 1 0", policy_movement_kl=f"{sparse} 0.001") is None
    assert run_check("UPD004", valid_rate="1 0 1 0 1 0", policy_movement_kl=sparse) is not None


@pytest.mark.parametrize(
    ("valid", "movement", "fires"),
    [("1 0.5 ", "0.001x6", True), ("1 0.51 ", "0.001x6", False), ("1 0 ", "0.01x6", False), ("1 0 ", "0.009x6", True)],
)
def test_exactly_at_a_threshold(valid: str, movement: str, fires: bool) -> None:
    assert (run_check("UPD004", valid_rate=valid * 3, policy_movement_kl=movement) is not None) is fires
