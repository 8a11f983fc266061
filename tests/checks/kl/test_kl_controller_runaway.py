from typing import Any

import pytest

from grpo_doctor.testing import find, run_check

RISING = [0.01 * k for k in range(1, 31)]


def test_message() -> None:
    found = find("KL007", kl=RISING[:22], kl_coef=RISING[:22])
    assert (found.severity, found.onset_step, found.detected_step) == ("warning", 20, 22)
    assert found.message == "The KL coefficient has risen to 0.22 over 20 rows, but the KL has also risen, to 0.22."


@pytest.mark.parametrize(
    ("kl", "beta"),
    [
        (RISING[:21], RISING[:21]),
        (RISING, "0.04x30"),
        (RISING[::-1], RISING),
        (RISING, [1 + 0.004 * k for k in range(30)]),  # has grown by less than a tenth
    ],
)
def test_silent(kl: Any, beta: Any) -> None:
    assert run_check("KL007", kl=kl, kl_coef=beta) is None


@pytest.mark.parametrize("threshold", ["throughout_tau", "rising"])
def test_a_trend_exactly_at_a_threshold_is_none(threshold: str) -> None:
    assert run_check("KL007", thresholds={threshold: 1}, kl=RISING, kl_coef=RISING) is None


@pytest.mark.parametrize(("factor", "fires"), [(1.1, False), (1.101, True)])
def test_the_coefficient_must_grow_by_more_than_a_tenth(factor: float, fires: bool) -> None:
    beta = [1 + k / 256 for k in range(19)]
    beta += [factor * value for value in beta[:3]]  # the first three, 19 rows later
    assert (run_check("KL007", kl=RISING[:22], kl_coef=beta) is not None) is fires
