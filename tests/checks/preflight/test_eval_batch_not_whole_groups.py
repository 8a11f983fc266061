from typing import Any

import pytest

from tests.preflight.as_judged import find, run_check


def test_message() -> None:
    found = find("CFG027", {"eval_batch": 12, "group_size": 8, "evaluation": "steps", "framework": "TRL"}, loss="0")
    assert (found.severity, found.message) == (
        "error",
        "The evaluation batch (12) is not divisible by the group size (8).",
    )


@pytest.mark.parametrize(
    ("settings", "severity"),
    [
        (
            {"eval_batch": 12, "group_size": 8, "evaluation": "steps", "framework": "TRL", "own_program": True},
            "info",
        ),
        ({"eval_batch": 16, "group_size": 8, "evaluation": "steps", "framework": "TRL"}, None),
        ({"eval_batch": 12, "group_size": 8, "evaluation": "steps", "framework": "TRL", "eval_group_size": 4}, None),
        ({"eval_batch": 12, "group_size": 8, "evaluation": "no", "framework": "TRL"}, None),
        ({"eval_batch": 12, "group_size": 8, "evaluation": "steps", "framework": "ms-swift"}, None),
    ],
)
def test_boundary(settings: dict[str, Any], severity: str | None) -> None:
    found = run_check("CFG027", settings, loss="0")
    assert (found.severity if found else None) == severity
