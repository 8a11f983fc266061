import pytest

from grpo_doctor.testing import find, run_check


def test_the_first_value_may_be_zero_and_five_more_may_not() -> None:
    assert run_check("KL003", {"kl_coef": 0.02}, kl="0x5") is None
    found = find("KL003", {"kl_coef": 0.02}, kl="0x6")
    assert found.severity == "warning"
    assert found.message == "All 6 logged KL values are 0, so the KL provides no information."


def test_an_error_where_a_coefficient_is_declared() -> None:
    assert find("KL003", {"kl_coef": 0.02}, kl="0x16").severity == "error"
    assert find("KL003", {"kl_coef": 0.02}, kl="0x15").severity == "warning"  # it may be small, and printed as 0


def test_a_run_that_declares_no_coefficient_or_learns_gets_a_remark() -> None:
    rising = [0.1 + 0.02 * row for row in range(30)]
    assert find("KL003", kl="0x30").severity == "info"
    assert find("KL003", kl="0.01873x30").severity == "warning"
    assert find("KL003", kl="0.01873x30", reward_mean=rising).severity == "info"
    assert find("KL003", {"kl_coef": 0.02}, kl="0x30", reward_mean=rising).severity == "error"


def test_a_loss_of_0_as_well_means_that_no_update_moves_the_policy() -> None:
    found = find("KL003", kl="0x16", loss="0x16")
    assert found.severity == "warning"
    assert found.message == (
        "All 16 logged KL values are 0, and the loss is also 0: no update moves the policy, or the KL is not computed."
    )
    assert find("KL003", kl="0x15", loss="0x15").severity == "info"
    assert "provides no information" in find("KL003", {"kl_coef": 0.02}, kl="0x16", loss="0x15 0.1").message


def test_one_number_to_the_last_digit_is_not_a_measurement() -> None:
    assert run_check("KL003", kl="0.01873x5") is None
    found = find("KL003", {"kl_coef": 0.02}, kl="0.01873x6")
    assert found.severity == "warning"
    assert found.message == ("All 6 logged KL values are exactly 0.01873, so the KL provides no information.")
    assert run_check("KL003", kl="0.019x9") is None  # rounded to three digits
    assert run_check("KL003", kl="0.01873 0.01874x9") is None
    assert find("KL003", kl="0.01873x9 0.01874x5").cleared


@pytest.mark.parametrize(
    ("settings", "kl"), [({}, "0 1e-8 0x9"), ({}, "0 0.001 0.002x20"), ({"kl_coef": 0}, "0x20"), ({}, "0 ? ? 0 ? 0")]
)
def test_it_stays_silent(settings: dict[str, float], kl: str) -> None:
    assert run_check("KL003", settings, kl=kl) is None


@pytest.mark.parametrize(("grad_norm", "fires"), [("0x10", False), ("0x5 0.1x5", False), ("0x4 0.1x6", True)])
def test_a_policy_that_does_not_move_stays_at_its_reference(grad_norm: str, fires: bool) -> None:
    assert (run_check("KL003", kl="0x10", kl_coef="0.1x10", grad_norm=grad_norm) is not None) == fires


def test_a_constant_of_one_digit_may_be_the_precision_that_is_printed() -> None:
    assert run_check("KL003", kl="0.000001x20") is None
    assert find("KL003", kl="0.0000012x20").severity == "warning"
