from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


def test_message() -> None:
    found = find("CFG055", {"no_repeat_ngram": 3}, loss="0")
    assert (found.severity, found.message) == (
        "warning",
        "Rollouts are generated with no_repeat_ngram_size, which the loss does not apply.",
    )


@pytest.mark.parametrize(
    ("settings", "severity"),
    [
        ({"no_repeat_ngram": 0}, None),
        ({"min_new_tokens": 1}, None),
        ({"min_new_tokens": 8}, "info"),
        ({"min_new_tokens": 0, "no_repeat_ngram": 2}, "warning"),
        ({"min_new_tokens": 8, "no_repeat_ngram": 0}, "info"),
    ],
)
def test_boundary(settings: dict[str, Any], severity: str | None) -> None:
    found = run_check("CFG055", settings, loss="0")
    assert (found.severity if found else None) == severity
