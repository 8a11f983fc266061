from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


def test_message() -> None:
    found = find("KL004", kl_k1="0.1x5 -0.3x3")
    assert (found.severity, found.onset_step, found.detected_step) == ("warning", 6, 8)
    assert found.message == "The estimated KL to the reference model is -0.3 nats/token."


@pytest.mark.parametrize(
    ("settings", "columns", "severity"),
    [
        ({}, {"kl": "-0.05x9"}, None),
        ({}, {"kl": "-0.051x2"}, None),
        ({}, {"kl": "-0.051x3"}, "warning"),
        ({}, {"kl": "-1x3"}, "warning"),
        ({}, {"kl": "-1.01x3"}, "error"),
        ({"kl_estimator": "k3"}, {"kl": "-0.001x3"}, None),  # bf16 rounding
        ({"kl_estimator": "k3"}, {"kl": "-0.0011x3"}, "critical"),
        ({"kl_estimator": "low_var_kl"}, {"kl": "-0.01x3"}, "critical"),
        ({"kl_estimator": "low_var_kl", "use_kl_loss": True}, {"kl": "-0.01x3"}, "critical"),
        ({"kl_estimator": "low_var_kl", "use_kl_loss": False}, {"kl": "-0.01x3"}, None),  # it is another KL
        ({"kl_estimator": "low_var_kl", "use_kl_loss": False}, {"kl": "-0.4x3"}, "warning"),
        ({"kl_estimator": "k1"}, {"kl": "-0.01x9"}, None),
        ({}, {"kl_k3": "-0.002x3"}, "critical"),
        ({}, {"kl": "0.02x9", "kl_k3": "0.02x9"}, None),
    ],
)
def test_boundary(settings: dict[str, Any], columns: dict[str, Any], severity: str | None) -> None:
    found = run_check("KL004", settings, **columns)
    assert (found.severity if found else None) == severity


@pytest.mark.parametrize(
    ("kl", "severity"), [("-1x9", None), ("-1.1x9", "warning"), ("-5x9", "warning"), ("-5.1x9", "error"), ("8x9", None)]
)
def test_a_sum_over_the_response(kl: str, severity: str | None) -> None:
    found = run_check("KL004", kl_sequence=kl)
    assert (found.severity if found else None) == severity
    if severity == "error":
        assert found is not None
        assert found.message == "The estimated KL to the reference model is -5.1 nats/response."


@pytest.mark.parametrize(
    ("thresholds", "columns", "severity"),
    [
        ({"warn": -0.5}, {"kl": "0 -1 0 -1 0 -1 0 -1"}, None),
        ({"warn": -0.5}, {"kl": "0 -1.01 0 -1.01 0 -1.01 0 -1.01"}, "error"),
        ({}, {"kl_sequence": "0 -2 0 -2 0 -2 0 -2"}, None),
        ({}, {"kl_sequence": "0 -2.01 0 -2.01 0 -2.01 0 -2.01"}, "warning"),
    ],
)
def test_the_mean_must_lie_below_the_limit_too(
    thresholds: dict[str, float], columns: dict[str, Any], severity: str | None
) -> None:
    found = run_check("KL004", thresholds={"rows": 2, **thresholds}, **columns)
    assert (found.severity if found else None) == severity
