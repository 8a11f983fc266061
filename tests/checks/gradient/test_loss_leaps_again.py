from typing import Any

import pytest

from grpo_doctor.testing import find, run_check

LEAPS = "0.04x20 " + "5e3 0.04x19 " * 3


def test_message() -> None:
    found = find("GRD010", loss=LEAPS, reward_mean="0.6x80")
    assert (found.severity, found.kind, found.onset_step, found.detected_step) == ("warning", "outcome", 21, 61)
    assert found.message == ("The loss spiked 3 times to at least 100 times its recent median (maximum: 5000).")


@pytest.mark.parametrize(
    ("loss", "severity"),
    [
        ("0.04x20 " + "5e3 0.04x19 " * 2, None),
        ("0.04x20 " + "20 0.04x19 " * 3, None),
        ("0.04x20 " + "-20.1 0.04x19 " * 3, "warning"),
        ("1x20 " + "100 1x19 " * 3, None),
        ("1x20 " + "100.1 1x19 " * 3, "warning"),
        ("0.04x20 " + "5e3 0.04x49 " * 3, None),  # within 101 rows
        ("0.04x20 " + "5e3 0.04x9 " * 9, "warning"),
        ("0.04x20 " + "5e3 0.04x9 " * 12, "error"),
        ("5e3 0.04 " * 30, None),  # that is its level
    ],
)
def test_boundary(loss: str, severity: str | None) -> None:
    found = run_check("GRD010", loss=loss)
    assert (found.severity if found else None) == severity


def test_a_run_that_gains_gets_a_remark() -> None:
    columns: dict[str, Any] = {"loss": LEAPS, "reward_mean": "0.1x20 0.3x20 0.6x20 0.9x20"}
    assert find("GRD010", **columns).severity == "info"
