from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


def test_message() -> None:
    found = find("CFG016", {"removed_settings": "use_liger_loss (removed in TRL 0.28)"}, loss="0")
    assert (found.severity, found.message) == (
        "info",
        "The current trainer does not accept use_liger_loss (removed in TRL 0.28).",
    )


@pytest.mark.parametrize(
    ("settings", "severity"),
    [
        ({}, None),
        ({"removed_settings": "epsilon", "pinned_version": "TRL 0.15.0", "pinned_beside": True}, "warning"),
        ({"removed_settings": "epsilon", "pinned_version": "TRL 0.15.0", "pinned_beside": False}, "error"),
    ],
)
def test_boundary(settings: dict[str, Any], severity: str | None) -> None:
    found = run_check("CFG016", settings, loss="0")
    assert (found.severity if found else None) == severity


def test_the_pinned_version_is_named() -> None:
    settings = {"removed_settings": "epsilon (unknown before TRL 0.16)", "pinned_version": "TRL 0.15.0"}
    found = find("CFG016", settings, loss="0")
    assert found.message == "TRL 0.15.0 does not accept epsilon (unknown before TRL 0.16)."
