from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


def test_message() -> None:
    found = find("CFG046", {"torn_targets": "q_proj, k_proj,"}, loss="0")
    assert (found.severity, found.message) == (
        "warning",
        "The shell passes q_proj, k_proj, with the comma, so these modules get no adapter.",
    )


@pytest.mark.parametrize(
    ("settings", "severity"),
    [
        ({"torn_targets": "q_proj,"}, "warning"),
        ({"lora_r": 8}, None),
    ],
)
def test_boundary(settings: dict[str, Any], severity: str | None) -> None:
    found = run_check("CFG046", settings, loss="0")
    assert (found.severity if found else None) == severity
