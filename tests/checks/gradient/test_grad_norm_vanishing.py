from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


def test_message() -> None:
    found = find("GRD003", grad_norm="2x5 0.0001x10")
    assert (found.severity, found.onset_step, found.detected_step) == ("warning", 6, 15)
    assert found.message == "The gradient norm is 0.0001 (2 at the start) and was almost 0 on 10 of 15 rows."


@pytest.mark.parametrize(
    ("columns", "fires"),
    [
        ({"grad_norm": "2x5 0x9"}, False),
        ({"grad_norm": "2x5 0.002x10"}, False),
        ({"grad_norm": "2x5 0.00199x10"}, True),
        ({"grad_norm": "0x15"}, False),  # GRD008
        ({"grad_norm": "2x5 0x10", "zero_variance_groups": "9x15", "groups": "10x15"}, False),
        ({"grad_norm": "2x5 0x10", "zero_variance_groups": "8x15", "groups": "10x15"}, True),
    ],
)
def test_boundary(columns: dict[str, Any], fires: bool) -> None:
    assert (run_check("GRD003", **columns) is not None) is fires


@pytest.mark.parametrize(("norms", "kind"), [("2x10 0x10", "risk"), ("2x10 0x11", "outcome")])
def test_it_is_an_outcome_on_more_than_half_of_the_rows(norms: str, kind: str) -> None:
    assert find("GRD003", grad_norm=norms).kind == kind


@pytest.mark.parametrize(
    ("norms", "dead", "severity"),
    [
        ("2x10 0x11", "?x21", "warning"),
        ("2x10 0x11", "0.5x21", "warning"),  # an alarm holds for ten rows
        ("2x10 0x20", "0.5x30", "error"),
        ("2x10 0x20", "0.89x30", "error"),
        ("2x10 0x20", "0.9x30", None),
        ("2x20 0x20", "0.5x40", "warning"),
    ],
)
def test_weights_that_do_not_move_although_groups_differ_are_an_error(
    norms: str, dead: str, severity: str | None
) -> None:
    found = run_check("GRD003", grad_norm=norms, zero_variance_share=dead)
    assert (found.severity if found else None) == severity
