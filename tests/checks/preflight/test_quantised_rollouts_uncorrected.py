from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


def test_message() -> None:
    found = find("CFG049", {"rollout_engine_apart": True, "rollout_precision": "fp8"}, loss="0")
    assert (found.severity, found.message) == (
        "warning",
        "Rollouts are sampled with quantised weights without an importance-sampling correction.",
    )


@pytest.mark.parametrize(
    ("settings", "severity"),
    [
        ({"rollout_engine_apart": True, "rollout_precision": "bfloat16"}, None),
        ({"rollout_engine_apart": True, "cache_precision": "fp8_e4m3"}, "warning"),
        ({"rollout_engine_apart": True, "model": "Qwen/Qwen3-4B-FP8"}, "warning"),
        ({"rollout_engine_apart": True, "model": "Qwen/Qwen3-4B"}, None),
        ({"rollout_engine_apart": True, "rollout_precision": "fp8", "importance_correction": "token"}, None),
        ({"rollout_engine_apart": True, "rollout_precision": "fp8", "importance_correction": 2.0}, None),
        ({"rollout_engine_apart": True, "rollout_precision": "fp8", "importance_correction": False}, "warning"),
        ({"rollout_engine_apart": True, "rollout_precision": "fp8", "corrects_mismatch": True}, None),
        ({"rollout_precision": "fp8"}, None),
        ({"rollout_engine_apart": True, "rollout_engine_optional": True, "rollout_precision": "int8"}, None),
    ],
)
def test_boundary(settings: dict[str, Any], severity: str | None) -> None:
    found = run_check("CFG049", settings, loss="0")
    assert (found.severity if found else None) == severity
