from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


def test_message() -> None:
    found = find("CFG058", {"use_peft": True, "checkpointing_reentrant": True}, loss="0")
    assert (found.severity, found.message) == (
        "info",
        "Gradient checkpointing is reentrant, so the adapter may get no gradient.",
    )


@pytest.mark.parametrize(
    ("settings", "severity"),
    [
        ({"use_peft": True, "checkpointing_reentrant": False}, None),
        ({"use_peft": False, "checkpointing_reentrant": True}, None),
        ({"use_peft": True, "checkpointing_reentrant": True, "gradient_checkpointing": False}, None),
    ],
)
def test_boundary(settings: dict[str, Any], severity: str | None) -> None:
    found = run_check("CFG058", settings, loss="0")
    assert (found.severity if found else None) == severity
