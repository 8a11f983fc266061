from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


def test_message() -> None:
    found = find("CFG010", {"gradient_checkpointing": True}, loss="0")
    assert (found.severity, found.message) == (
        "info",
        "Gradient checkpointing is on, and the log does not show whether generation runs without it.",
    )


@pytest.mark.parametrize(
    ("settings", "columns"),
    [
        ({"gradient_checkpointing": False}, {}),
        ({}, {}),
        ({"gradient_checkpointing": True, "use_vllm": True}, {}),
        ({"gradient_checkpointing": True, "per_device_train_batch_size": 8}, {}),
        ({"gradient_checkpointing": True}, {"generation_training_mode": "0"}),
    ],
)
def test_silent(settings: dict[str, Any], columns: dict[str, Any]) -> None:
    assert run_check("CFG010", settings, loss="0", **columns) is None
