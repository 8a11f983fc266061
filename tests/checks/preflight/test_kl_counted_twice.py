from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


def test_message() -> None:
    found = find("CFG022", {"use_kl_loss": True, "use_kl_in_reward": True, "kl_coef": 0.001}, loss="0")
    assert (found.severity, found.message) == (
        "warning",
        "The KL term is counted twice: in the loss and in the reward.",
    )


@pytest.mark.parametrize(
    ("settings", "severity"),
    [
        ({"use_kl_loss": True, "use_kl_in_reward": True, "kl_coef": 0.0}, None),
        ({"use_kl_loss": True, "use_kl_in_reward": True, "kl_coef": 0.001, "kl_reward_coef": 0.0}, None),
        ({"use_kl_loss": False, "use_kl_in_reward": True, "kl_coef": 0.001}, None),
        ({"use_kl_loss": True, "use_kl_in_reward": False, "kl_coef": 0.001}, None),
    ],
)
def test_boundary(settings: dict[str, Any], severity: str | None) -> None:
    found = run_check("CFG022", settings, loss="0")
    assert (found.severity if found else None) == severity
