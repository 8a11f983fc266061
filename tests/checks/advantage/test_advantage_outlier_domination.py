from typing import Any

import pytest

from grpo_doctor.testing import run_check


def test_message() -> None:
    found = run_check("ADV009", {"normaliser": "batch"}, advantage_max="2x5 7.5x5", advantage_min="-2x10")
    assert found is not None
    assert (found.onset_step, found.detected_step) == (6, 10)
    assert found.message == "The largest advantage in the batch is 7.5, so single samples dominate the update."


@pytest.mark.parametrize(
    ("normaliser", "largest", "smallest", "std", "fires"),
    [
        ("batch", "5.0x9", "-1x9", "?x9", False),
        ("batch", "5.01x9", "-1x9", "?x9", True),
        ("batch", "5.01x4", "-1x4", "?x4", False),
        ("batch", "1x9", "-5.01x9", "?x9", True),
        ("batch", "6x9", "-1x9", "1.2x9", False),
        ("group", "6x9", "-1x9", "?x9", False),
    ],
)
def test_boundary(normaliser: str, largest: str, smallest: str, std: str, fires: bool) -> None:
    columns: dict[str, Any] = {"advantage_max": largest, "advantage_min": smallest, "advantage_std": std}
    assert (run_check("ADV009", {"normaliser": normaliser}, **columns) is not None) is fires
