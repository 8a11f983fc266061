from typing import Any

import pytest

from grpo_doctor.series import COLLAPSED, HEALTHY
from grpo_doctor.testing import find, run_check


@pytest.mark.parametrize("witness", ["learning_rate", "grad_norm", "weight_delta"])
def test_a_collapse_after_an_update_that_moved_nothing(witness: str) -> None:
    found = find("UPD007", valid_rate="1 1 0 1", update_applied="0 1 0 0", **dict[str, Any]({witness: "? 0 ? ?"}))
    assert (found.severity, found.onset_step, found.last_step) == ("error", 3, 4)
    assert found.message == (
        "The rollout collapsed after 1 update that did not change the weights, so optimisation is not the cause."
    )


@pytest.mark.parametrize(
    "columns",
    [
        pytest.param({"valid_rate": "1 1 0 1", "update_applied": "0 1 0 0", "learning_rate": "? 1e-9 ? ?"}, id="moved"),
        pytest.param({"valid_rate": "1 1 0 1", "update_applied": "0 0 0 0", "learning_rate": "? 0 ? ?"}, id="skipped"),
        pytest.param(
            {"valid_rate": "1 0.4 0 1", "update_applied": "0 1 0 0", "learning_rate": "? 0 ? ?"}, id="faulty before"
        ),
        pytest.param(
            {"valid_rate": "1 1 0.2 1", "update_applied": "0 1 0 0", "learning_rate": "? 0 ? ?"}, id="no collapse"
        ),
        pytest.param({"valid_rate": "1x20", "update_applied": "1x20", "learning_rate": "0x20"}, id="healthy"),
    ],
)
def test_it_stays_silent(columns: dict[str, Any]) -> None:
    assert run_check("UPD007", **columns) is None


@pytest.mark.parametrize(("before", "after"), [(HEALTHY, 1.0), (0.0, COLLAPSED)])
def test_exactly_healthy_and_exactly_collapsed_count(before: float, after: float) -> None:
    rates = [0.0, before, after, 0.0]
    assert run_check("UPD007", fallback_rate=rates, update_applied="0 1 0 0", learning_rate="? 0 ? ?") is not None
