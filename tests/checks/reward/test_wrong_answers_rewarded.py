from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


def test_the_shares_are_reported() -> None:
    found = find("REW020", right_unrewarded_rate="1x10", wrong_rewarded_rate="0.6x10")
    assert (found.severity, found.kind) == ("error", "defect")
    assert found.message == "0% of the correct answers and 60% of the wrong answers are rewarded."


@pytest.mark.parametrize(
    ("missed", "paid", "severity"),
    [
        ("0.5x10", "0.49x10", None),
        ("0.5x10", "0.5x10", "warning"),
        ("0.5x10", "0.75x10", "error"),
        ("0.5x10", "0.69x10", "warning"),
        ("1x10", "0.1x10", None),  # nothing is rewarded: REW021 reports it
        ("1x10", "0.11x10", "warning"),
        ("0.5x4", "0.5x4", None),
        ("0.02x30", "0.01x30", None),
    ],
)
def test_boundary(missed: str, paid: str, severity: str | None) -> None:
    found = run_check("REW020", right_unrewarded_rate=missed, wrong_rewarded_rate=paid)
    assert (found.severity if found else None) == severity


def test_boundary_of_the_number_of_rows() -> None:
    rates: dict[str, Any] = {"right_unrewarded_rate": "0.9x7", "wrong_rewarded_rate": "0.9x7"}
    assert run_check("REW020", **rates) is not None
    assert run_check("REW020", right_unrewarded_rate="0.9x6", wrong_rewarded_rate="0.9x6") is None
