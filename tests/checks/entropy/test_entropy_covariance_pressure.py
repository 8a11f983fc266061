from typing import Any

from grpo_doctor.testing import run_check

RISING = " ".join(str(round(0.001 * (i + 1), 4)) for i in range(24))
FALLING = " ".join(str(round(1 - 0.012 * i, 4)) for i in range(24))
GAIN = " ".join(str(round(0.1 + 0.02 * i + 0.01 * (i % 2), 3)) for i in range(24))


def test_fires_as_info_and_warns_where_the_forecast_is_empty() -> None:
    found = run_check("ENT010", logp_advantage_cov=RISING, entropy_mean="1x24")
    assert found is not None
    assert (found.severity, found.onset_step, found.detected_step) == ("info", 20, 22)
    assert found.message == (
        "The covariance of log-probability and advantage rises (0.024); along its slope entropy goes from 1 to 1 nats "
        "in 50 rows."
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
