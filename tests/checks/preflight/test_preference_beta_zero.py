from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


def test_message() -> None:
    found = find("CFG060", {"algorithm": "dpo", "dpo_beta": 0.0}, loss="0")
    assert (found.severity, found.message) == (
        "error",
        "Beta is 0, so the preference loss does not depend on the policy.",
    )


@pytest.mark.parametrize(
    ("settings", "severity"),
    [
        ({"algorithm": "dpo", "dpo_beta": 0.01}, None),
        ({"dpo_beta": 0}, "error"),
        ({"algorithm": "rm", "dpo_beta": 0}, None),
        ({"algorithm": "orpo", "dpo_beta": 0}, "warning"),
        ({"algorithm": "orpo", "dpo_beta": 0.1}, None),
    ],
)
def test_boundary(settings: dict[str, Any], severity: str | None) -> None:
    found = run_check("CFG060", settings, loss="0")
    assert (found.severity if found else None) == severity
