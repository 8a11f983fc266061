import math
from typing import Any

import pytest

from grpo_doctor.testing import run_check


def test_boundary_and_message() -> None:
    low = "-ln 0.5 is 0.693: a tenth below it is 0.624"
    assert run_check("ENT009", top1_prob="0.5x10", entropy_mean="0.624x10") is None, low
    assert run_check("ENT009", top1_prob="0.5x10", entropy_mean="0.623x4 0.7x6") is None
    found = run_check("ENT009", top1_prob="0.5x10", entropy_mean="0.623x5 0.7x5")
    assert found is not None
    assert found.message == (
        "An entropy of 0.623 nats is impossible at a top-1 probability of 0.5: it must be between 0.693 and 7."
    )


def test_a_negative_entropy_is_impossible_without_a_top_1_probability() -> None:
    assert run_check("ENT009", entropy_mean="-0.02x4 0.5x6") is None
    assert run_check("ENT009", entropy_mean="-0.01x10") is None
    found = run_check("ENT009", entropy_mean="-16.7x5 0.5x5")
    assert found is not None
    assert found.message == (
        "An entropy of -16.7 nats is impossible: the entropy of a distribution over tokens is at least 0."
    )


@pytest.mark.parametrize(
    ("p", "entropy", "vocabulary", "fires"),
    [
        ("0.95", "1.0", 96, True),
        ("0.95", "0.48", 96, True),
        ("0.95", "0.46", 96, False),
        ("0.69", "0.84", 96, False),
        ("0.985", "0.08", 96, False),
        ("0.85", "1.5", None, False),
        ("0.6", "0.5", None, False),
        ("0.999", "0.05", None, False),
        ("0.5", "-90", None, True),
    ],
)
def test_bounds(p: str, entropy: str, vocabulary: int | None, fires: bool) -> None:
    settings = {"vocab_size": vocabulary} if vocabulary else {}
    found = run_check("ENT009", settings, top1_prob=f"{p}x10", entropy_mean=f"{entropy}x10")
    assert (found is not None) is fires


@pytest.mark.parametrize(
    ("p", "entropy", "fires"),
    [
        (0.5, 0.5 * math.log(2), False),  # two tokens, one of them at 0.5: the entropy is ln 2, and no other
        (0.5, 0.49 * math.log(2), True),
        (0.5, 1.5 * math.log(2), False),
        (0.5, 1.51 * math.log(2), True),
        (0.5, 0, True),
        (0.99, 5, True),
        (0.991, 5, False),
    ],
)
def test_exactly_at_a_bound(p: float, entropy: float, fires: bool) -> None:
    columns: dict[str, Any] = {"top1_prob": [p] * 10, "entropy_mean": [entropy] * 10}
    assert (run_check("ENT009", {"vocab_size": 2}, thresholds={"slack": 0.5}, **columns) is not None) is fires
