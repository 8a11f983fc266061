"""The memory estimate: each part against a value computed by hand."""

from __future__ import annotations

import pytest

import grpo_doctor


def parts(**settings: object) -> dict[str, str]:
    """Return the estimate for each part."""
    tables = grpo_doctor.preflight({"num_generations": 8, "max_completion_length": 1024, **settings}).tables
    found = [table for table in tables if table.title.startswith("Memory")]
    return {what: figure for table in found for what, figure, _ in table.rows}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (
            {"model_name_or_path": "Qwen/Qwen2.5-7B", "use_peft": False, "per_device_train_batch_size": 4},
            {"weights": "13.0", "gradients and optimizer": "91.3", "logits of a micro-batch": "2.3"},
        ),
        (
            {"model_name_or_path": "Qwen/Qwen2.5-7B", "use_peft": True, "beta": 0.04},
            {"weights": "13.0", "gradients and optimizer": "0.0"},
        ),
        (
            {"model_name_or_path": "Qwen/Qwen2.5-0.5B", "use_peft": False, "beta": 0.04},
            {"weights": "0.9", "gradients and optimizer": "6.5", "reference": "0.9"},
        ),
        ({"model_name_or_path": "Qwen3-1_7B", "use_peft": True}, {"weights": "3.2", "gradients and optimizer": "0.0"}),
        ({"model_name_or_path": "llama_2_7b", "use_peft": True}, {"weights": "13.0", "gradients and optimizer": "0.0"}),
        (
            {"model_name_or_path": "Qwen/Qwen2.5-7B", "vllm_gpu_memory_utilization": 0.3, "use_vllm": True},
            {"weights": "13.0", "gradients and optimizer": "91.3", "engine": "30%"},
        ),
    ],
)
def test_the_parts(settings: dict[str, object], expected: dict[str, str]) -> None:
    assert {what: figure for what, figure in parts(**settings).items() if figure} == expected


def test_a_model_of_unknown_size_has_no_estimate() -> None:
    assert parts(model_name_or_path="path/to/model") == {}
