import pytest

from grpo_doctor.testing import run_check


def test_boundary_message_and_clip() -> None:
    assert run_check("SHP004", {"vocab_size": 96}, top1_prob="0.3 0.1476x7 0.3") is None
    found = run_check("SHP004", {"vocab_size": 96}, top1_prob="0.3 0.1476x8 0.3")
    assert found is not None
    assert (found.severity, found.onset_step) == ("error", 3)
    assert found.message == "The top-1 probability is constant at 0.1476, which indicates that logits are clipped."
    assert abs(found.evidence["clip"] - 2.8) < 0.01


def test_varying_or_saturated_values_are_not_flagged() -> None:
    assert run_check("SHP004", top1_prob="0.7 0.702 0.699 0.701 0.698 0.703 0.7 0.701 0.699") is None
    assert run_check("SHP004", top1_prob="0.7 0.7002 " * 6) is None
    assert run_check("SHP004", top1_prob="0.999x12") is None


@pytest.mark.parametrize(
    ("thresholds", "p", "fires"),
    [
        ({"within": 0.0625}, "0.5 0.5625 " * 6, False),
        ({"within": 0.063}, "0.5 0.5625 " * 6, True),
        ({}, "0.99x12", False),
        ({}, "0.98x12", True),
        ({}, "0.01x12", False),
        ({}, "0.011x12", True),
    ],
)
def test_exactly_at_a_threshold(thresholds: dict[str, float], p: str, fires: bool) -> None:
    assert (run_check("SHP004", thresholds=thresholds, top1_prob=p) is not None) is fires
