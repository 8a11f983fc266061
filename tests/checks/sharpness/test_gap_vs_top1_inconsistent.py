import pytest

from grpo_doctor.testing import run_check


def test_boundary_and_message() -> None:
    assert run_check("SHP003", logit_gap="2x5", top1_prob="0.9x5") is None
    assert run_check("SHP003", logit_gap="2x5", top1_prob="0.902x2 0.8x3") is None
    found = run_check("SHP003", logit_gap="2x5", top1_prob="0.902x3 0.8x2")
    assert found is not None
    assert found.message == "The top-1 probability is 0.902, but a logit gap of 2 allows at most 0.881."


@pytest.mark.parametrize(("gap", "p"), [("2.99", "0.69"), ("6.65", "0.989"), ("8.2", "0.999"), ("1.8", "0.53")])
def test_healthy_pairs(gap: str, p: str) -> None:
    assert run_check("SHP003", logit_gap=f"{gap}x8", top1_prob=f"{p}x8") is None


@pytest.mark.parametrize(("gap", "p", "fires"), [("0", "0.75", False), ("0", "0.76", True), ("-0.1", "0.76", False)])
def test_a_logit_gap_of_0_allows_a_probability_of_one_half(gap: str, p: str, fires: bool) -> None:
    found = run_check("SHP003", thresholds={"slack": 0.25}, logit_gap=f"{gap}x5", top1_prob=f"{p}x5")
    assert (found is not None) is fires
