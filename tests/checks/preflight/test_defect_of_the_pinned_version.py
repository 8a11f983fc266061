from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


def test_message() -> None:
    settings = {"advisories": "RLA-2026-001 (trl 0.23.1): the loss is wrong", "advisory_level": 1}
    found = find("CFG039", settings, loss="0")
    assert (found.severity, found.message) == ("warning", "RLA-2026-001 (trl 0.23.1): the loss is wrong.")


@pytest.mark.parametrize(("level", "severity"), [(0, "info"), (1, "warning"), (2, "error"), (None, None)])
def test_boundary(level: int | None, severity: str | None) -> None:
    settings: dict[str, Any] = {"advisories": "RLA-2026-001: a", "advisory_level": level}
    found = run_check("CFG039", {name: value for name, value in settings.items() if value is not None}, loss="0")
    assert (found.severity if found else None) == severity
