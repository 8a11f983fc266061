from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


def test_message() -> None:
    found = find("CFG057", {"lora_r": 32, "engine_load": "dummy"}, loss="0")
    assert (found.severity, found.message) == (
        "warning",
        "The rollout engine loads dummy weights, but with LoRA the trainer sends it only the adapter.",
    )


@pytest.mark.parametrize(
    ("settings", "severity"),
    [
        ({"lora_r": 32, "engine_load": "safetensors"}, None),
        ({"use_peft": False, "engine_load": "dummy"}, None),
        ({"lora_r": 8, "sleep_level": 2}, "warning"),
        ({"lora_r": 8, "sleep_level": 2, "layered_summon": True}, None),
        ({"lora_r": 8, "sleep_level": 1}, None),
    ],
)
def test_boundary(settings: dict[str, Any], severity: str | None) -> None:
    found = run_check("CFG057", settings, loss="0")
    assert (found.severity if found else None) == severity
