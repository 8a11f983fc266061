from typing import Any

import pytest

from grpo_doctor.testing import find, run_check

GOOD = "0.1x5 0.5x25 0.5x10"
BAD = "0.1x5 0.5x25 0.05x10"


def test_message() -> None:
    found = find("KL001", kl="0.03x30 3x10", reward_mean=BAD)
    assert (found.severity, found.onset_step, found.detected_step) == ("error", 31, 32)
    assert found.message == "The KL to the reference model is 3 nats/token (0.03 at the start)."


def test_it_began_where_the_kl_left_half_a_nat() -> None:
    found = find("KL001", kl="0.01x20 0.5x2 0.51 0.6 0.8 1 1.2 1.4 2x12", reward_mean=GOOD)
    assert (found.onset_step, found.detected_step) == (23, 30)


@pytest.mark.parametrize(
    ("kl", "reward", "severity"),
    [
        ("0.02x5 0.1x10 0.3x10 0.6x15", GOOD, None),  # a healthy small model
        ("0.03x38 1.51x2", GOOD, "warning"),
        ("0.03x39 1.51", GOOD, None),
        ("0.03x30 1.5x10", GOOD, None),
        ("0.2x30 2x10", GOOD, None),  # not above ten times the first level
        ("0.2x30 2.1x10", GOOD, "warning"),
        ("7x40", BAD, "error"),  # no text of the reference, whatever its level at the start
        ("4.9x40", BAD, None),
        ("0.01x30 0.101x10", BAD, "error"),  # sudden, with a fallen reward
        ("0.005x30 0.1x10", BAD, None),
        ("0.02x30 0.2x10", BAD, None),
        ("0.03x30 10x10", BAD, "error"),
        ("0.01x30 0.101x10", GOOD, None),
        ("0.03x30 10.1x10", BAD, "critical"),
        ("0.03x30 10.1x10", "?x40", "warning"),
    ],
)
def test_boundary(kl: str, reward: str, severity: str | None) -> None:
    columns: dict[str, Any] = {"kl": kl, "reward_mean": reward}
    found = run_check("KL001", **columns)
    assert (found.severity if found else None) == severity


@pytest.mark.parametrize(
    ("kl", "severity"), [("1.5", None), ("1.51", "warning"), ("10", "warning"), ("17.34", "error")]
)
def test_the_mean_of_an_epoch_needs_no_first_level(kl: str, severity: str | None) -> None:
    found = run_check("KL001", {"rows": "epochs"}, kl=kl)
    assert (found.severity if found else None) == severity
    assert found is None or found.message.endswith("nats/token (mean over an epoch).")


def test_an_epoch_of_a_run_that_is_too_short_for_a_first_level_is_reported() -> None:
    found = find("KL001", {"rows": "epochs"}, kl="2x4")
    assert found.message == "The KL to the reference model is 2 nats/token (mean over an epoch)."


@pytest.mark.parametrize(
    ("kl", "reward", "severity"),
    [
        ("0 3 6 9 12 1e4x35", "?x40", "error"),  # the first rows must not hide what follows
        ("12x40", "?x40", "warning"),  # above the limit since the first row
        ("10x40", "?x40", "warning"),
        ("0.1x5 100x35", "?x40", "warning"),
        ("0.1x5 101x35", "?x40", "error"),
        ("0.1x5 101 0.1x34", "?x40", None),  # single tokens
        ("602 1003", "0.55 0.51", "error"),  # two rows that were posted
        ("101 100", "0.55 0.51", "warning"),
        ("1003", "0.55", None),
    ],
)
def test_the_ceiling(kl: str, reward: str, severity: str | None) -> None:
    columns: dict[str, Any] = {"kl": kl, "reward_mean": reward}
    found = run_check("KL001", **columns)
    assert (found.severity if found else None) == severity


def test_a_run_that_gains_is_not_flagged_by_the_ceiling() -> None:
    found = find("KL001", kl="0.1x25 101x15", reward_mean="0.1x5 0.2x5 0.4x10 0.6x10 0.8x10")
    assert found.severity == "warning"
