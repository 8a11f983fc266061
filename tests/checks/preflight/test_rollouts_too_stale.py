from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


def test_message() -> None:
    found = find("CFG050", {"async_level": 16}, loss="0")
    assert (found.severity, found.message) == ("warning", "Responses may be up to 16 policy versions old.")


@pytest.mark.parametrize(
    ("settings", "severity"),
    [
        ({"async_level": 4}, None),
        ({"async_level": 5}, "warning"),
        ({"async_level": 8, "importance_correction": True}, None),
        ({"async_level": 9, "importance_correction": True}, "info"),
        ({"async_level": 8, "handles_staleness": True}, None),
        ({"async_level": True}, None),
    ],
)
def test_boundary(settings: dict[str, Any], severity: str | None) -> None:
    found = run_check("CFG050", settings, loss="0")
    assert (found.severity if found else None) == severity
