import math

import pytest

from grpo_doctor.testing import find, run_check

REWARD = [0.2 + 0.3 * min(n / 40, 1.0) + 0.01 * math.sin(n * 2.4) for n in range(200)]


def test_the_share_and_the_plateau_are_reported() -> None:
    found = find("ADV016", zero_variance_share="0.1x60 0.9x140", reward_mean=REWARD)
    assert found.severity == "warning"
    assert found.message == (
        "90% of the groups have identical rewards (10% at the start), and the reward has plateaued at 0.5 since step "
        f"{found.evidence['since']}."
    )


@pytest.mark.parametrize(
    ("share", "severity"),
    [
        ("0.1x60 0.69x140", None),
        ("0.1x60 0.71x140", "info"),
        ("0.1x60 0.84x140", "info"),
        ("0.1x60 0.86x140", "warning"),
        ("0.5x60 0.9x140", None),  # most of them from the start: ADV003
        ("0.1x200", None),
    ],
)
def test_boundary(share: str, severity: str | None) -> None:
    found = run_check("ADV016", zero_variance_share=share, reward_mean=REWARD)
    assert (found.severity if found else None) == severity


@pytest.mark.parametrize(
    ("share", "severity"), [("0.1x60 0.75x140", None), ("0.1x60 0.8x140", "info"), ("0.1x60 0.875x140", "info")]
)
def test_exactly_at_a_threshold(share: str, severity: str | None) -> None:
    limits = {"most": 0.75, "nearly_all": 0.875}
    found = run_check("ADV016", thresholds=limits, zero_variance_share=share, reward_mean=REWARD)
    assert (found.severity if found else None) == severity


def test_a_solved_task_gets_a_remark_at_most() -> None:
    success = [min(0.2 + 0.78 * n / 40, 0.98) for n in range(200)]
    found = find("ADV016", zero_variance_share="0.1x60 0.95x140", reward_mean=REWARD, success_rate=success)
    assert found.severity == "info"
