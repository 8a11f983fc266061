from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"kl_coef": 0.005, "reference": "old"},
            "The KL coefficient is 0.005, but the reference model is the policy itself.",
        ),
        (
            {"beta": 0.04, "sync_ref_model": True, "ref_model_sync_steps": 1},
            "The KL coefficient is 0.04, but the reference model is synchronised with the policy at every step.",
        ),
    ],
)
def test_message(settings: dict[str, Any], message: str) -> None:
    found = find("CFG012", settings, loss="0")
    assert (found.severity, found.message) == ("warning", message)


@pytest.mark.parametrize(
    "settings",
    [
        {"kl_coef": 0.0, "reference": "none"},
        {"kl_coef": 0.04, "reference": "initial"},
        {"kl_coef": 0.04, "sync_ref_model": True, "ref_model_sync_steps": 2},
        {"kl_coef": 0.04, "sync_ref_model": False, "ref_model_sync_steps": 1},
        {"kl_coef": 0.04},
    ],
)
def test_silent(settings: dict[str, Any]) -> None:
    assert run_check("CFG012", settings, loss="0") is None
