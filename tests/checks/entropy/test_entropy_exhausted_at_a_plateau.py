import math

import pytest

from grpo_doctor.testing import find, run_check

REWARD = [0.2 + 0.3 * min(n / 40, 1.0) + 0.01 * math.sin(n * 2.4) for n in range(200)]


def test_both_numbers_are_reported() -> None:
    found = find("ENT014", entropy_mean="1x40 0.02x160", reward_mean=REWARD)
    assert found.severity == "warning"
    assert found.message == (
        f"The reward has plateaued at 0.5 since step {found.evidence['since']}, and entropy fell from 1 nats/token "
        "at the start to 0.02."
    )


@pytest.mark.parametrize(
    ("entropy", "severity"),
    [
        ("1x40 0.1x160", None),
        ("1x40 0.099x160", "info"),
        ("1x40 0.03x160", "info"),
        ("1x40 0.029x160", "warning"),
        ("0.05x40 0.02x160", None),  # low from the start
        ("1x200", None),
    ],
)
def test_boundary(entropy: str, severity: str | None) -> None:
    found = run_check("ENT014", entropy_mean=entropy, reward_mean=REWARD)
    assert (found.severity if found else None) == severity


BINARY = {"left": 0.125, "nats": 0.25, "none": 0.0625}


@pytest.mark.parametrize(
    ("entropy", "severity"),
    [
        ("1x40 0.125x160", None),
        ("4x40 0.25x160", None),
        ("1x40 0.0625x160", "info"),
        ("0.5x40 0.03125x160", "info"),
        ("4x40 0.0625x160", "info"),
        ("1x40 0x160", "warning"),
        ("1x40 -0.1x160", None),  # a term of the loss
    ],
)
def test_exactly_at_a_threshold(entropy: str, severity: str | None) -> None:
    found = run_check("ENT014", thresholds=BINARY, entropy_mean=entropy, reward_mean=REWARD)
    assert (found.severity if found else None) == severity


def test_a_reward_that_still_rises_is_silent() -> None:
    still = [0.2 + 0.002 * n + 0.01 * math.sin(n * 2.4) for n in range(200)]
    assert run_check("ENT014", entropy_mean="1x40 0.02x160", reward_mean=still) is None
