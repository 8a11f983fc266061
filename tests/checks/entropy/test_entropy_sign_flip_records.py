from typing import Any

import pytest

from grpo_doctor.testing import run_check

FALL = " ".join(str(round(1.0 - 0.04 * i, 3)) for i in range(16))
DEEP = " ".join(str(round(1.0 - 0.06 * i, 3)) for i in range(16))
RISE = " ".join(str(round(3 + 0.2 * i, 3)) for i in range(16))


def test_boundary_and_message() -> None:
    assert run_check("ENT004", entropy_coef="0.049x16", entropy_mean=FALL, logit_gap=RISE) is None
    found = run_check("ENT004", entropy_coef="0.05x16", entropy_mean=FALL, logit_gap=RISE)
    assert found is not None
    assert (found.severity, found.onset_step, found.detected_step) == ("warning", 12, 14)
    assert found.message == (
        "Entropy falls from 1 to 0.4 nats despite an entropy coefficient of 0.05. Only a probe can prove a flipped sign."
    )


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"entropy_mean": DEEP, "top1_prob": RISE}, "error"),
        ({"entropy_mean": FALL, "top1_prob": RISE, "entropy_loss": FALL}, "warning"),
        ({"entropy_mean": RISE, "top1_prob": RISE}, None),
        ({"entropy_mean": FALL}, None),
        ({"entropy_mean": FALL, "top1_prob": FALL}, None),
    ],
)
def test_severity(columns: dict[str, Any], expected: str | None) -> None:
    found = run_check("ENT004", {"entropy_coef": 0.5}, **columns)
    assert (found.severity if found else None) == expected


@pytest.mark.parametrize(("coef", "expected"), [(0.5, "error"), (1.0, "warning")])
def test_a_term_that_is_added_with_a_plus_is_an_error(coef: float, expected: str) -> None:
    """With a coefficient of 1, the added term cannot be distinguished from the entropy itself."""
    added = " ".join(str(round(coef * (1.0 - 0.04 * i), 4)) for i in range(16))
    found = run_check("ENT004", {"entropy_coef": coef}, entropy_mean=FALL, logit_gap=RISE, entropy_loss=added)
    assert found is not None
    assert found.severity == expected


@pytest.mark.parametrize(("coef", "onset"), [("0x4 0.05x12", 12), ("0x5 0.05x11", 13)])
def test_the_bonus_must_have_been_on_for_eight_steps(coef: str, onset: int) -> None:
    found = run_check("ENT004", entropy_coef=coef, entropy_mean=FALL, logit_gap=RISE)
    assert found is not None
    assert found.onset_step == onset


PLUS = [0.5 * 40 * m / 1024 for m in range(40, 24, -1)]  # numbers of which 5% is exact


@pytest.mark.parametrize(
    ("thresholds", "columns", "expected"),
    [
        ({"tau": -1}, {"entropy_mean": FALL, "logit_gap": RISE}, None),
        ({"rises": 1}, {"entropy_mean": FALL, "logit_gap": RISE}, None),
        ({"rises": 1}, {"entropy_mean": FALL, "top1_prob": RISE}, None),
        (
            {"error_below_share": 0.5},
            {"entropy_mean": "1.0 0.9x2 0.8x2 0.7x4 0.6x4 0.5x3", "top1_prob": RISE},
            "warning",
        ),
        (
            {},
            {"entropy_mean": [2 * t for t in PLUS], "entropy_loss": [1.05 * t for t in PLUS], "logit_gap": RISE},
            "error",
        ),
    ],
)
def test_exactly_at_a_threshold(thresholds: dict[str, float], columns: dict[str, Any], expected: str | None) -> None:
    found = run_check("ENT004", {"entropy_coef": 0.5}, thresholds=thresholds, **columns)
    assert (found.severity if found else None) == expected
