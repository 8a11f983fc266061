from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


def test_message() -> None:
    found = find("CFG003", {"kl_coef": 10}, loss="0")
    assert found.message == "The KL coefficient is 10, but published recipes use 0.001 to 0.04."


def test_a_negative_coefficient_has_a_separate_message() -> None:
    found = find("CFG003", {"kl_coef": -0.1}, loss="0")
    assert found.message == "The KL coefficient is -0.1, which rewards distance from the reference model."
    assert found.severity == "warning"
    assert run_check("CFG003", {"kl_coef": 0.0}, loss="0") is None


@pytest.mark.parametrize(
    ("settings", "severity"),
    [
        ({"beta": 0.05}, None),
        ({"beta": 0.051}, "info"),
        ({"kl_coef": 0.1}, "info"),
        ({"kl_coef": 0.11}, "warning"),
        ({}, None),
    ],
)
def test_boundary(settings: dict[str, Any], severity: str | None) -> None:
    found = run_check("CFG003", settings, loss="0")
    assert (found.severity if found else None) == severity


@pytest.mark.parametrize("column", ["value_loss", "kl_sequence"])
@pytest.mark.parametrize(("beta", "severity"), [(0.2, None), (0.21, "info")])
def test_the_kl_of_ppo_is_in_the_reward(column: str, beta: float, severity: str | None) -> None:
    columns: dict[str, Any] = {column: "0.5"}
    found = run_check("CFG003", {"kl_coef": beta}, **columns)
    assert (found.severity if found else None) == severity
    assert find("CFG003", {"kl_coef": beta}, loss="0").severity == "warning"
