from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


def test_message() -> None:
    found = find("CFG054", {"use_peft": True, "learning_rate": 5e-07}, loss="0")
    assert (found.severity, found.message) == ("warning", "The learning rate (5e-07) is too low to train an adapter.")


@pytest.mark.parametrize(
    ("settings", "severity"),
    [
        ({"lora_r": 16, "learning_rate": 2e-06}, "info"),
        ({"lora_r": 16, "learning_rate": 5.1e-07}, "info"),
        ({"lora_r": 16, "learning_rate": 2.1e-06}, None),
        ({"lora_r": 16, "learning_rate": 0.0}, None),
        ({"lora_r": 16, "learning_rate": 5e-07, "optim": "lion_8bit"}, None),
        ({"use_peft": False, "learning_rate": 1e-07}, "warning"),
        ({"use_peft": False, "learning_rate": 1.1e-07}, "info"),
        ({"use_peft": False, "learning_rate": 2e-07}, "info"),
        ({"use_peft": False, "learning_rate": 2.1e-07}, None),
        ({"learning_rate": 1e-08}, None),
    ],
)
def test_boundary(settings: dict[str, Any], severity: str | None) -> None:
    found = run_check("CFG054", settings, loss="0")
    assert (found.severity if found else None) == severity


def test_a_warm_up_is_waited_for() -> None:
    assert run_check("CFG054", {"lora_r": 16}, learning_rate="1e-6x5 2e-6x10") is None
    assert find("CFG054", {"lora_r": 16}, learning_rate="1e-6x5 2e-6x11").onset_step == 16
