from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


def test_message() -> None:
    found = find("RAT001", clip_fraction="0.05x10 0.5x12")
    assert (found.severity, found.onset_step) == ("error", 14)
    assert found.message == "The clip fraction averages 50% over the last ten rows."


@pytest.mark.parametrize(
    ("settings", "fraction", "severity"),
    [
        ({}, "0 0.4 " * 7, None),
        ({}, "0 0.8 " * 7, "warning"),
        ({}, "0.21x9", None),  # no ten rows yet
        ({}, "0.21x10", "warning"),
        ({}, "0.4x10", "warning"),
        ({}, "0.41x10", "error"),
        ({}, "0.05x20 0.15 0.05x20", None),  # the healthy off-policy run
        ({"importance_sampling_level": "sequence"}, "0.6x14", None),
        ({"loss_type": "cispo"}, "0.6x14", None),
    ],
)
def test_boundary(settings: dict[str, Any], fraction: str, severity: str | None) -> None:
    found = run_check("RAT001", settings, clip_fraction=fraction)
    assert (found.severity if found else None) == severity


@pytest.mark.parametrize(("std", "severity"), [("0x14", None), ("0.9x14", "error"), (None, "error")])
def test_a_clip_without_advantages_is_not_flagged(std: str | None, severity: str | None) -> None:
    columns: dict[str, Any] = {"clip_fraction": "1x14", **({"advantage_std": std} if std else {})}
    found = run_check("RAT001", **columns)
    assert (found.severity if found else None) == severity
