from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


def test_message() -> None:
    found = find("RAT002", clip_fraction="0x10")
    assert (found.severity, found.detected_step) == ("info", 10)
    assert found.message == "The clip fraction is 0 in all 10 rows, so the clip bounds have no effect in this run."


@pytest.mark.parametrize(
    ("columns", "active"),
    [
        ({"clip_fraction": "0x9"}, False),
        ({"clip_fraction": "0x9 0.001 0x9"}, False),
        ({"clip_fraction": "0x12 0.001x3"}, False),
        ({"clip_fraction": "0x10", "ratio_mean": "1.002x10"}, False),
        ({"clip_fraction": "0x10", "ratio_mean": "1.001x10", "ratio_max": "1.2x10"}, True),
    ],
)
def test_boundary(columns: dict[str, Any], active: bool) -> None:
    found = run_check("RAT002", **columns)
    assert (found is not None and not found.cleared) is active
