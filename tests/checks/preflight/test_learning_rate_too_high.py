from typing import Any

import pytest

from grpo_doctor.testing import find, run_check

FULL = {"use_peft": False, "model": "Qwen/Qwen2.5-0.5B-Instruct"}


def test_message() -> None:
    found = find("CFG002", FULL, learning_rate="0 1e-5 6e-5 1e-5")
    assert (found.severity, found.onset_step) == ("warning", 3)
    assert found.message == "The learning rate of 6e-05 is above the usual range (5e-07 to 3e-06)."


@pytest.mark.parametrize(
    ("settings", "rate", "severity"),
    [
        (FULL, 1e-5, None),
        (FULL, 1.1e-5, "info"),
        (FULL, 4.9e-5, "info"),
        (FULL, 5e-5, "warning"),
        (FULL, 5.1e-5, "warning"),
        ({"lora_r": 0, "model": "Llama-3.2-1b"}, 1e-4, "warning"),
        ({"use_peft": False, "model": "SmolLM2-90M"}, 1e-3, None),  # small models need more
        ({"use_peft": False, "model": "SmolLM2-135M"}, 1e-3, "warning"),
        ({"use_peft": False, "model": "embedded"}, 5e-4, None),
        ({"model": "Qwen2.5-7B"}, 4e-5, None),  # unknown whether it trains an adapter
        ({"use_peft": False, "model": "SmolLM2-100M"}, 1e-3, "warning"),
        (FULL, 1e-6, None),
        (FULL | {"optimizer": "SGD"}, 1e-3, None),  # its steps are not those of Adam
        (FULL | {"optimizer": "adamw_torch_fused"}, 1e-3, "warning"),
        ({"lora_r": 16, "optim": "lion_8bit"}, 5e-7, None),
        (FULL | {"optimizer": "SAM"}, 1e-3, None),
        (FULL | {"optimizer": "same_as_before"}, 1e-3, "warning"),
        ({"lora_r": 16, "model": "Qwen2.5-7B"}, 9.9e-4, None),
        ({"lora_r": 16, "model": "Qwen2.5-7B"}, 1e-3, "warning"),
        ({"lora_r": 16, "model": "SmolLM2-90M"}, 1e-3, None),
        ({"lora_r": 16, "model": "SmolLM2-100M"}, 1e-3, "warning"),
        ({"lora_r": 0}, 1e-3, None),  # of a model whose size is not known
        ({"lora_r": 16}, 5e-7, None),  # too low, which CFG054 reports
        ({"lora_r": 16}, 0.0, None),
        ({"lora_r": 16}, 9.9e-4, None),
        ({"lora_r": 16}, 1e-3, "warning"),
        ({"lora_r": 16, "optimizer": "SGD"}, 1e-3, None),
    ],
)
def test_boundary(settings: dict[str, Any], rate: float, severity: str | None) -> None:
    found = run_check("CFG002", {**settings, "learning_rate": rate}, loss="0x11")
    assert (found.severity if found else None) == severity
