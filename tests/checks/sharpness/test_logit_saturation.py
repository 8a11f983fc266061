from typing import Any

import pytest

from grpo_doctor.testing import run_check

RISE = "0.1 0.15 0.2 0.26 0.3 0.34 0.41 0.45 0.5 0.55 0.61 0.66"


def test_one_row_before_and_at_the_boundary() -> None:
    assert run_check("SHP001", logit_gap="3x4 7.01x2 3x4", top1_prob="0.7x4 0.991x2 0.7x4") is None
    assert run_check("SHP001", logit_gap="5x10", top1_prob="0.96x10") is None
    found = run_check("SHP001", logit_gap="3x4 7.01x3 3x3", top1_prob="0.7x4 0.991x3 0.7x3")
    assert found is not None
    assert (found.severity, found.onset_step, found.detected_step) == ("error", 5, 7)
    assert found.message == (
        "The top-1 probability is 0.991 and the logit gap is 7.01: the policy is nearly deterministic."
    )


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"logit_gap": "7x12", "top1_prob": "0.999x12"}, "warning"),
        ({"logit_gap": "8.2x12", "top1_prob": "0.9995x12", "entropy_mean": "0.019x12"}, "critical"),
        ({"logit_gap": "8.2x12", "top1_prob": "0.999x12", "entropy_mean": "0.019x12"}, "error"),
        ({"logit_gap": "8.2x12", "top1_prob": "0.9995x12", "entropy_mean": "0.02x12"}, "error"),
        ({"logit_gap": "8.2x12", "top1_prob": "0.99x12"}, "warning"),
        ({"logit_gap": "8.2x12", "top1_prob": "0.95x12"}, None),
        ({"logit_gap": "5x12", "top1_prob": "0.85x12"}, None),
        ({"logit_gap": "3x8 6.65x4", "top1_prob": "0.7x8 0.989x4", "reward_mean": RISE}, None),
        ({"logit_gap": "8x12", "top1_prob": "0.999x12", "reward_mean": "0.95x12"}, None),
    ],
)
def test_levels(columns: dict[str, Any], expected: str | None) -> None:
    found = run_check("SHP001", **columns)
    assert (found.severity if found else None) == expected
