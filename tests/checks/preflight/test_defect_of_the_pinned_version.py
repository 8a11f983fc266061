from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


def test_message() -> None:
    settings = {"trl_version": "0.23.1", "use_vllm": True, "temperature": 0.6}
    found = find("CFG039", settings, loss="0")
    assert (found.severity, found.message) == (
        "warning",
        "TRL 0.23.1 has a known bug: it computes importance weights from vLLM's probabilities before temperature scaling.",
    )


@pytest.mark.parametrize(
    ("settings", "severity"),
    [
        ({"trl_version": "0.24.0", "use_vllm": True, "temperature": 0.6}, None),
        ({"trl_version": "0.22.2", "use_vllm": True, "temperature": 0.6}, None),
        ({"trl_version": "0.23", "use_vllm": True, "temperature": 0.6}, "warning"),
        ({"trl_version": "0.23", "use_vllm": True}, None),
        ({"trl_version": "0.23", "use_vllm": True, "temperature": 1.0}, None),
        ({"trl_version": "0.23", "use_vllm": False, "temperature": 0.6}, None),
        ({"trl_version": "0.23", "use_vllm": True, "temperature": 0.6, "importance_correction": False}, None),
        ({"trl_version": "0.15.0", "use_vllm": True, "use_peft": True}, "warning"),
        ({"trl_version": "0.15.1", "use_vllm": True, "use_peft": True}, None),
        ({"trl_version": "0.15.0", "use_vllm": True, "use_peft": False}, None),
    ],
)
def test_boundary(settings: dict[str, Any], severity: str | None) -> None:
    found = run_check("CFG039", settings, loss="0")
    assert (found.severity if found else None) == severity
