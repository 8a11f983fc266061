from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


def test_message() -> None:
    found = find("CFG052", {"fp16": True}, loss="0")
    assert (found.severity, found.message) == ("info", "The trainer runs in float16, which overflows above 65,504.")


@pytest.mark.parametrize(
    ("settings", "severity"),
    [
        ({"fp16": False}, None),
        ({"precision": "float16"}, "info"),
        ({"precision": "bfloat16"}, None),
    ],
)
def test_boundary(settings: dict[str, Any], severity: str | None) -> None:
    found = run_check("CFG052", settings, loss="0")
    assert (found.severity if found else None) == severity
