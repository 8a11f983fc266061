from typing import Any

import pytest

from grpo_doctor.testing import run_check

RISING = " ".join(str(round(0.001 * (i + 1), 4)) for i in range(24))
FALLING = " ".join(str(round(1 - 0.012 * i, 4)) for i in range(24))
GAIN = " ".join(str(round(0.1 + 0.02 * i + 0.01 * (i % 2), 3)) for i in range(24))


def test_fires_as_info_and_warns_where_the_forecast_is_empty() -> None:
    found = run_check("ENT010", logp_advantage_cov=RISING, entropy_mean="1x24")
    assert found is not None
    assert (found.severity, found.onset_step, found.detected_step) == ("info", 20, 22)
    assert found.message == (
        "The covariance of log-probability and advantage is rising (0.024). At the current rate, entropy will fall "
        "from 1 to 1 nats within 50 rows."
    )
    columns: dict[str, Any] = {"logp_advantage_cov": RISING, "entropy_mean": FALLING}
    assert (run_check("ENT010", **columns) or found).severity == "info"
    steep: dict[str, Any] = {**columns, "entropy_mean": " ".join(str(round(1 - 0.016 * i, 4)) for i in range(24))}
    worst = run_check("ENT010", **steep)
    assert worst is not None
    assert worst.severity == "warning"
    learning = run_check("ENT010", **steep, reward_mean=GAIN)
    assert learning is not None
    assert learning.severity == "info"


def test_silent_without_pressure() -> None:
    assert run_check("ENT010", logp_advantage_cov="0.01x24", entropy_mean=FALLING) is None
    assert run_check("ENT010", logp_advantage_cov="-0.01x24", entropy_mean=FALLING) is None
    assert run_check("ENT010", logp_advantage_cov=RISING, entropy_mean="1x10 0.4x14") is None


@pytest.mark.parametrize(("start", "onset"), [("0x12", 20), ("0x13", 21)])
def test_eight_of_ten_covariances_must_be_above_zero(start: str, onset: int) -> None:
    found = run_check("ENT010", logp_advantage_cov=f"{start} {RISING}", entropy_mean=[1] * (24 + int(start[2:])))
    assert found is not None
    assert found.onset_step == onset


@pytest.mark.parametrize(("rows", "severity"), [(25, "info"), (26, "warning")])
def test_the_forecast_must_be_below_a_tenth_on_three_rows(rows: int, severity: str) -> None:
    """It is exactly a tenth on row 23."""
    entropy = [1.25 - i / 64 for i in range(rows)]
    found = run_check("ENT010", logp_advantage_cov=[1 + i for i in range(rows)], entropy_mean=entropy)
    assert found is not None
    assert found.severity == severity


@pytest.mark.parametrize(
    ("thresholds", "entropy"), [({"tau": 1}, "1x24"), ({}, "1x10 0.5x14")], ids=["tau", "half the entropy"]
)
def test_exactly_at_a_threshold(thresholds: dict[str, float], entropy: str) -> None:
    assert run_check("ENT010", thresholds=thresholds, logp_advantage_cov=RISING, entropy_mean=entropy) is None
