from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


def test_message() -> None:
    found = find("CFG035", {"own_loss": "Penalised._compute_loss", "use_liger": True}, loss="0")
    assert (found.severity, found.message) == (
        "warning",
        "Penalised._compute_loss is never called, because the trainer uses the fused (Liger) loss.",
    )


@pytest.mark.parametrize(
    ("settings", "severity"),
    [
        ({"own_loss": "Penalised._compute_loss", "use_liger": False}, None),
        ({"use_liger": True}, None),
    ],
)
def test_boundary(settings: dict[str, Any], severity: str | None) -> None:
    found = run_check("CFG035", settings, loss="0")
    assert (found.severity if found else None) == severity
