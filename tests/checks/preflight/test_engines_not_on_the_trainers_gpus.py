from typing import Any

import pytest

from tests.preflight.as_judged import find, run_check

TOGETHER = {"framework": "OpenRLHF", "world_size": 8, "colocated": True, "group_size": 8}


def test_message() -> None:
    found = find("CFG040", TOGETHER | {"engine_gpus": 4}, loss="0")
    assert (found.severity, found.message) == ("error", "Colocated engines use 4 GPUs, but the actor uses 8.")


@pytest.mark.parametrize(
    ("settings", "severity"),
    [
        ({"engine_gpus": 8}, None),
        ({"engine_gpus": 16}, "error"),
        ({"engine_gpus": 4, "async_level": 1}, None),
        ({"engine_gpus": 4, "async_level": 0}, "error"),
        ({"engine_gpus": 4, "colocated": False}, None),
        ({"engine_gpus": 4, "framework": "slime"}, None),
    ],
)
def test_boundary(settings: dict[str, Any], severity: str | None) -> None:
    found = run_check("CFG040", TOGETHER | settings, loss="0")
    assert (found.severity if found else None) == severity
