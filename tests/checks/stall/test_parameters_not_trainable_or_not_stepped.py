from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


def test_no_gradient_with_live_groups() -> None:
    assert run_check("STL004", grad_norm="0x7", zero_variance_groups="2x7", groups="8x7") is None
    found = find("STL004", grad_norm="0x8", zero_variance_groups="2x8", groups="8x8")
    assert (found.severity, found.onset_step, found.detected_step) == ("error", 1, 8)
    assert found.message == (
        "The gradient norm is exactly 0 on 8 steps in a row, although rewards differ in 75% of the groups."
    )


def test_counts_consecutive_zeros_since_the_first() -> None:
    found = find("STL004", grad_norm="1x2 0x12", zero_variance_groups="2x14", groups="8x14")
    assert found.message.startswith("The gradient norm is exactly 0 on 12 steps in a row")
    assert (found.onset_step, found.detected_step) == (3, 10)


def test_zero_variance_groups_explain_it() -> None:
    assert run_check("STL004", grad_norm="0x20", zero_variance_groups="8x20", groups="8x20") is None


@pytest.mark.parametrize(("dead", "fires"), [("4x8", True), ("5x8", False)])
def test_half_of_the_groups_must_be_live(dead: str, fires: bool) -> None:
    found = run_check("STL004", grad_norm="0x8", zero_variance_groups=dead, groups="8x8")
    assert (found is not None) is fires


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"advantage_max": "1.4x8"}, "although the advantages are not 0."),
        ({"advantage_std": "0.9x8"}, "although the advantages are not 0."),
        ({"loss": "1.91x8"}, "although the loss is 1.91."),
        ({"advantage_std": "0.011x8"}, "although the advantages are not 0."),
        ({"advantage_std": "0.01x8"}, None),
        ({"advantage_max": "0x8"}, None),
        ({"loss": "0.01x8"}, None),
        ({"loss": "1.91x8", "reward_mean": "0.3x8"}, None),  # the loss of a policy gradient proves no signal
    ],
)
def test_other_signals(columns: dict[str, str], message: str | None) -> None:
    given: dict[str, Any] = {"grad_norm": "0x8", **columns}
    found = run_check("STL004", **given)
    assert (found is not None) is (message is not None)
    assert message is None or (found is not None and found.message.endswith(message))
