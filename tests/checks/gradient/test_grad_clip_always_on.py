from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


def test_message() -> None:
    found = find("GRD004", {"max_grad_norm": 1.0}, grad_norm="3x20")
    assert (found.severity, found.detected_step) == ("info", 20)
    assert found.message == (
        "100% of the gradients in the last 20 rows exceeded the clipping limit of 1 (measured before clipping)."
    )


@pytest.mark.parametrize(
    ("settings", "norms", "fires"),
    [
        ({"max_grad_norm": 1.0}, "3x19", False),
        ({"max_grad_norm": 1.0}, "3x18 1x2", False),
        ({"max_grad_norm": 1.0}, "3x19 1", True),
        ({}, "3x20", False),
    ],
)
def test_boundary(settings: dict[str, Any], norms: str, fires: bool) -> None:
    assert (run_check("GRD004", settings, grad_norm=norms) is not None) is fires
