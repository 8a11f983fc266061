from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


def test_message() -> None:
    found = find("CFG011", {"lora_dropout": 0.1, "attention_dropout": 0.0}, loss="0")
    assert (found.severity, found.message) == ("info", "Dropout (0.1) is on while log-probabilities are computed.")


@pytest.mark.parametrize(
    ("settings", "severity"),
    [
        ({"lora_dropout": 0.0}, None),
        ({"lora_dropout": 0.05}, "info"),
        ({"lora_dropout": 0.1}, "info"),
        ({"dropout": 0.05}, "info"),
        ({"attention_dropout": 0.051}, "warning"),
        ({"dropout": 0.1}, "warning"),
        ({"lora_dropout": 0.1, "disable_dropout": True}, None),
        ({}, None),
    ],
)
def test_boundary(settings: dict[str, Any], severity: str | None) -> None:
    found = run_check("CFG011", settings, loss="0")
    assert (found.severity if found else None) == severity
