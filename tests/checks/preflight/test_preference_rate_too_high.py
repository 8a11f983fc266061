from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


def test_message() -> None:
    found = find("CFG059", {"algorithm": "dpo", "learning_rate": 5e-05, "use_peft": False}, loss="0")
    assert (found.severity, found.message) == (
        "warning",
        "The learning rate (5e-05) is above the usual range for preference training.",
    )


@pytest.mark.parametrize(
    ("settings", "severity"),
    [
        ({"algorithm": "dpo", "learning_rate": 5e-06}, None),
        ({"algorithm": "dpo", "learning_rate": 5.1e-06}, "info"),
        ({"algorithm": "dpo", "learning_rate": 5e-05}, "info"),
        ({"algorithm": "dpo", "learning_rate": 1.9e-05, "use_peft": False}, "info"),
        ({"algorithm": "dpo", "learning_rate": 0.0002, "use_peft": True}, None),
        ({"algorithm": "kto", "learning_rate": 0.0005, "use_peft": True}, "warning"),
        ({"algorithm": "orpo", "learning_rate": 5e-05, "use_peft": False}, None),
        ({"algorithm": "rm", "learning_rate": 0.0001, "use_peft": False}, None),
        ({"algorithm": "dpo", "learning_rate": 0.001, "optimizer": "sgd"}, None),
    ],
)
def test_boundary(settings: dict[str, Any], severity: str | None) -> None:
    found = run_check("CFG059", settings, loss="0")
    assert (found.severity if found else None) == severity
