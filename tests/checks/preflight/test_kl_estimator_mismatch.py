from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


@pytest.mark.parametrize(
    ("settings", "severity", "message"),
    [
        (
            {"kl_estimator": "k1", "use_kl_loss": True},
            "warning",
            "The KL term in the loss uses the k1 estimator, whose gradient has mean zero: it adds noise but no pull "
            "towards the reference model.",
        ),
        (
            {"kl_penalty": "low_var_kl", "use_kl_in_reward": True},
            "info",
            "The KL term in the reward uses the k3 estimator, which is biased there.",
        ),
        (
            {"kl_estimator": "k3", "use_kl_loss": False},
            "info",
            "The KL term in the reward uses the k3 estimator, which is biased there.",
        ),
    ],
)
def test_fires(settings: dict[str, Any], severity: str, message: str) -> None:
    found = find("KL005", settings, loss="0")
    assert (found.severity, found.message) == (severity, message)


@pytest.mark.parametrize(
    "settings",
    [
        {"kl_estimator": "k3", "use_kl_loss": True},
        {"kl_estimator": "k3"},
        {"kl_estimator": "k1", "use_kl_loss": False},
        {"kl_estimator": "k1", "use_kl_loss": True, "kl_coef": 0.0},
        {"kl_penalty": "low_var_kl", "use_kl_in_reward": False},
        {"use_kl_loss": True},
    ],
)
def test_silent(settings: dict[str, Any]) -> None:
    assert run_check("KL005", settings, loss="0") is None
