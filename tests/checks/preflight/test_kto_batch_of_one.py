from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


def test_message() -> None:
    found = find(
        "CFG062", {"algorithm": "kto", "per_device_train_batch_size": 1, "refuses_kto_batch_of_one": True}, loss="0"
    )
    assert (found.severity, found.message) == ("error", "KTO cannot estimate its KL with 1 example per device.")


@pytest.mark.parametrize(
    ("settings", "severity"),
    [
        ({"algorithm": "kto", "per_device_train_batch_size": 1}, "info"),
        ({"algorithm": "kto", "per_device_train_batch_size": 2, "refuses_kto_batch_of_one": True}, None),
        ({"algorithm": "dpo", "per_device_train_batch_size": 1}, None),
    ],
)
def test_boundary(settings: dict[str, Any], severity: str | None) -> None:
    found = run_check("CFG062", settings, loss="0")
    assert (found.severity if found else None) == severity
