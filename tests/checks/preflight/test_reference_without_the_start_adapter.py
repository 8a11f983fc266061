from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


def test_message() -> None:
    found = find("CFG063", {"algorithm": "dpo", "start_adapter": "out/sft"}, loss="0")
    assert found.severity == "warning"
    assert (
        found.message == "The reference model is the base model without out/sft, the adapter that training starts from."
    )


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"algorithm": "kto", "start_adapter": "a"}, True),
        ({"algorithm": "grpo", "start_adapter": "a", "kl_coef": 0.01}, True),
        ({"algorithm": "grpo", "start_adapter": "a", "kl_coef": 0.0}, False),
        ({"algorithm": "simpo", "start_adapter": "a"}, False),
        ({"algorithm": "dpo", "start_adapter": "a", "ref_adapters": "a"}, False),
        ({"algorithm": "dpo", "start_adapter": "a", "reference_model": "merged"}, False),
        ({"algorithm": "dpo", "start_adapter": "a", "new_adapter": True}, False),
        ({"algorithm": "dpo"}, False),
    ],
)
def test_boundary(settings: dict[str, Any], told: bool) -> None:
    assert (run_check("CFG063", settings, loss="0") is not None) is told
