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
        "Entropy falls (1 to 0.4 nats) against a bonus of 0.05; only a probe can say whether its sign is flipped."
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


def test_a_term_that_is_added_with_a_plus_is_an_error() -> None:
    added = " ".join(str(round(0.5 * (1.0 - 0.04 * i), 4)) for i in range(16))
    found = run_check("ENT004", {"entropy_coef": 0.5}, entropy_mean=FALL, logit_gap=RISE, entropy_loss=added)
    assert found is not None
    assert found.severity == "error"
