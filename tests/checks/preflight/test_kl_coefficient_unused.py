from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


def test_message() -> None:
    found = find("CFG021", {"kl_coef": 0.001, "use_kl_loss": False}, loss="0")
    assert (found.severity, found.message) == (
        "info",
        "The KL coefficient (0.001) has no effect: the KL loss is off.",
    )


@pytest.mark.parametrize(
    ("settings", "severity"),
    [
        ({"kl_coef": 0.001, "use_kl_loss": False, "kl_loss_by_default": True}, "warning"),
        ({"kl_coef": 0.001, "use_kl_loss": True}, None),
        ({"kl_coef": 0.001, "use_kl_loss": False, "use_kl_in_reward": True}, None),
        ({"kl_coef": 0.0, "use_kl_loss": False}, None),
    ],
)
def test_boundary(settings: dict[str, Any], severity: str | None) -> None:
    found = run_check("CFG021", settings, loss="0")
    assert (found.severity if found else None) == severity
