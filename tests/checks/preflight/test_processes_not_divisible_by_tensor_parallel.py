from typing import Any

import pytest

from tests.preflight.as_judged import find, run_check


def test_message() -> None:
    found = find("CFG028", {"world_size": 8, "tensor_parallel": 3, "framework": "verl"}, loss="0")
    assert (found.severity, found.message) == (
        "error",
        "The number of GPUs (8) is not divisible by the engine's tensor parallel size (3).",
    )


@pytest.mark.parametrize(
    ("settings", "severity"),
    [
        ({"world_size": 8, "tensor_parallel": 4, "framework": "verl"}, None),
        ({"world_size": 8, "tensor_parallel": 3, "framework": "OpenRLHF"}, None),
        ({"world_size": 8, "tensor_parallel": 16, "framework": "verl"}, "error"),
        ({"world_size": 8, "tensor_parallel": 3, "framework": "verl", "engine_nodes": 0}, "error"),
        ({"world_size": 8, "tensor_parallel": 3, "framework": "verl", "engine_nodes": 1}, None),
        ({"world_size": 1, "tensor_parallel": 2, "framework": "verl"}, "info"),
        ({"world_size": 1, "tensor_parallel": 2, "framework": "verl", "by_command": True}, "error"),
        ({"world_size": 2, "tensor_parallel": 4, "framework": "verl"}, "error"),
    ],
)
def test_boundary(settings: dict[str, Any], severity: str | None) -> None:
    found = run_check("CFG028", settings, loss="0")
    assert (found.severity if found else None) == severity
