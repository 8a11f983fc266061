from typing import Any

import pytest

from tests.preflight.as_judged import find, run_check


def test_message() -> None:
    found = find("CFG032", {"generation_batch_size": 64, "steps_per_generation": 4, "framework": "TRL"}, loss="0")
    assert (found.severity, found.message) == (
        "error",
        "generation_batch_size=64 and steps_per_generation=4 are both set; TRL accepts only one.",
    )


@pytest.mark.parametrize(
    ("settings", "severity"),
    [
        ({"generation_batch_size": 64, "steps_per_generation": 4, "framework": "ms-swift"}, None),
        ({"generation_batch_size": 64, "framework": "TRL"}, None),
    ],
)
def test_boundary(settings: dict[str, Any], severity: str | None) -> None:
    found = run_check("CFG032", settings, loss="0")
    assert (found.severity if found else None) == severity
