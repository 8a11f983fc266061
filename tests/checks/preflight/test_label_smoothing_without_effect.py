from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


def test_message() -> None:
    found = find("CFG061", {"label_smoothing": 0.1, "preference_loss": "ipo"}, loss="0")
    assert (found.severity, found.message) == ("warning", "Label smoothing (0.1) is ignored by this loss.")


@pytest.mark.parametrize(
    ("settings", "severity"),
    [
        ({"label_smoothing": 0.0, "preference_loss": "ipo"}, None),
        ({"label_smoothing": 0.1, "preference_loss": "robust"}, None),
        ({"label_smoothing": 0.5, "preference_loss": "sigmoid"}, "warning"),
        ({"label_smoothing": 0.49, "preference_loss": "sigmoid"}, None),
    ],
)
def test_boundary(settings: dict[str, Any], severity: str | None) -> None:
    found = run_check("CFG061", settings, loss="0")
    assert (found.severity if found else None) == severity
