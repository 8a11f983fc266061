from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


def test_message() -> None:
    found = find("CFG026", {"max_new_tokens": 512, "model": "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B"}, loss="0")
    assert (found.severity, found.message) == (
        "warning",
        "The response limit (512 tokens) is too short for a model that reasons before it answers.",
    )


@pytest.mark.parametrize(
    ("settings", "severity"),
    [
        ({"max_new_tokens": 1024, "model": "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B"}, None),
        ({"max_new_tokens": 1023, "model": "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B"}, "warning"),
        ({"max_new_tokens": 512, "model": "Qwen/Qwen2.5-7B-Instruct"}, None),
        ({"max_new_tokens": 512, "model": "Qwen/QwQ-32B"}, "warning"),
        ({"max_new_tokens": 512, "model": "Qwen/Qwen3-8B"}, "info"),
        ({"max_new_tokens": 1024, "model": "Qwen/Qwen3-8B"}, None),
        ({"max_new_tokens": 512, "model": "unsloth/Qwen3-0.6B-unsloth-bnb-4bit"}, "info"),
        ({"max_new_tokens": 512, "model": "/models/Qwen3-30B-A3B-FP8"}, "info"),
        ({"max_new_tokens": 512, "model": "Qwen/Qwen3-8B-Base"}, None),
        ({"max_new_tokens": 512, "model": "Qwen/Qwen3-4B-Instruct-2507"}, None),
        ({"max_new_tokens": 512, "model": "Qwen/Qwen3-4B-Thinking-2507"}, "warning"),
        ({"max_new_tokens": 512, "model": "out/qwen3-8b-sft"}, None),
        ({"max_new_tokens": 512, "model": "out/gemma", "enable_thinking": True}, "info"),
        ({"max_new_tokens": 512, "model": "Qwen/Qwen3-8B", "enable_thinking": False}, None),
    ],
)
def test_boundary(settings: dict[str, Any], severity: str | None) -> None:
    found = run_check("CFG026", settings, loss="0")
    assert (found.severity if found else None) == severity
