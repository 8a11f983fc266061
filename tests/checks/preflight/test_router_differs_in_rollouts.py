from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


def test_message() -> None:
    found = find(
        "CFG048", {"model": "Qwen/Qwen3-30B-A3B", "rollout_engine_apart": True, "updates_per_rollout": 4}, loss="0"
    )
    assert (found.severity, found.message) == (
        "warning",
        "A mixture-of-experts model is trained with token-level ratios and without routing replay.",
    )


@pytest.mark.parametrize(
    ("settings", "severity"),
    [
        ({"model": "Qwen/Qwen3-30B-A3B", "rollout_engine_apart": True}, "info"),
        ({"model": "Qwen/Qwen3-30B-A3B", "rollout_engine_apart": True, "updates_per_rollout": 1}, "info"),
        ({"model": "Qwen/Qwen3-30B-A3B", "rollout_engine_apart": True, "async_level": 1}, "warning"),
        (
            {
                "model": "Qwen/Qwen3-30B-A3B",
                "rollout_engine_apart": True,
                "updates_per_rollout": 4,
                "importance_correction": "token",
            },
            "info",
        ),
        (
            {
                "model": "Qwen/Qwen3-30B-A3B",
                "rollout_engine_apart": True,
                "updates_per_rollout": 4,
                "importance_correction": "null",
            },
            "warning",
        ),
        (
            {
                "model": "Qwen/Qwen3-30B-A3B",
                "rollout_engine_apart": True,
                "updates_per_rollout": 4,
                "corrects_mismatch": True,
            },
            "info",
        ),
        (
            {
                "model": "Qwen/Qwen3-30B-A3B",
                "rollout_engine_apart": True,
                "updates_per_rollout": 4,
                "corrects_mismatch": True,
                "importance_correction": False,
            },
            "warning",
        ),
        ({"model": "Qwen/Qwen3-30B-A3B", "rollout_engine_apart": True, "routing_replay": "R3"}, None),
        ({"model": "Qwen/Qwen3-30B-A3B", "rollout_engine_apart": True, "routing_replay": "disabled"}, "info"),
        ({"model": "Qwen/Qwen3-30B-A3B", "rollout_engine_apart": True, "importance_sampling_level": "sequence"}, None),
        ({"model": "Qwen/Qwen3-30B-A3B", "rollout_engine_apart": True, "loss_type": "gspo"}, None),
        ({"model": "Qwen/Qwen3-30B-A3B"}, None),
        ({"model": "Qwen/Qwen3-30B-A3B", "rollout_engine_apart": True, "rollout_engine_optional": True}, None),
        (
            {
                "model": "Qwen/Qwen3-30B-A3B",
                "rollout_engine_apart": True,
                "rollout_engine_optional": True,
                "use_vllm": True,
            },
            "info",
        ),
        ({"model": "Qwen/Qwen3-8B", "rollout_engine_apart": True}, None),
        ({"model": "mistralai/Mixtral-8x7B-v0.1", "rollout_engine_apart": True}, "info"),
        ({"model": "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", "rollout_engine_apart": True}, None),
        ({"model": "deepseek-ai/DeepSeek-V3", "rollout_engine_apart": True}, "info"),
        ({"model": "openai/gpt-oss-20b", "rollout_engine_apart": True}, "info"),
    ],
)
def test_boundary(settings: dict[str, Any], severity: str | None) -> None:
    found = run_check("CFG048", settings, loss="0")
    assert (found.severity if found else None) == severity
