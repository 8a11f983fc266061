from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


def test_message() -> None:
    found = find("CFG047", {"cannot_run": "'(' was never closed"}, loss="0")
    assert (found.severity, found.message) == ("error", "The script cannot run as written: '(' was never closed.")


@pytest.mark.parametrize(
    ("settings", "severity"),
    [
        ({}, None),
    ],
)
def test_boundary(settings: dict[str, Any], severity: str | None) -> None:
    found = run_check("CFG047", settings, loss="0")
    assert (found.severity if found else None) == severity
