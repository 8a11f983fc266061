from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


def test_message() -> None:
    found = find("CFG066", {"algorithm": "dpo", "dpo_beta": 5.0}, loss="0")
    assert (found.severity, found.message) == ("info", "Beta is 5: the loss saturates after a few steps.")


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"algorithm": "kto", "dpo_beta": 1.1}, True),
        ({"algorithm": "dpo", "dpo_beta": 1.0}, False),
        ({"algorithm": "simpo", "dpo_beta": 2.5}, False),
        ({"algorithm": "dpo", "dpo_beta": 5.0, "preference_loss": "dpo_norm"}, False),
    ],
)
def test_boundary(settings: dict[str, Any], told: bool) -> None:
    assert (run_check("CFG066", settings, loss="0") is not None) is told
