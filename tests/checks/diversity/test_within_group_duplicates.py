from typing import Any

import pytest

from grpo_doctor.testing import find, run_check

FLAT = "0.3 0.31 0.29 0.3 " * 4
RISE = " ".join(str(round(0.05 + 0.04 * i, 3)) for i in range(16))


def test_one_row_before_and_at_the_boundary() -> None:
    assert run_check("DIV001", unique_rate="0.5x16") is None
    assert run_check("DIV001", unique_rate="0.49x13") is None
    found = find("DIV001", unique_rate="0.49x14")
    assert (found.severity, found.onset_step, found.detected_step) == ("warning", 5, 14)
    assert found.message == "Only 49% of the responses are distinct."


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"unique_rate": "0.2x16"}, "warning"),
        ({"unique_rate": "0.2x16", "reward_mean": FLAT}, "error"),
        ({"unique_rate": "0.25x16", "reward_mean": FLAT}, "warning"),
        ({"unique_rate": "0.98x4 0.2x12", "reward_mean": RISE}, None),
        ({"unique_rate": "0.2x16", "reward_mean": "0.95x16"}, None),
        ({"unique_rate": "0.98x16", "reward_mean": FLAT}, None),
    ],
)
def test_levels(columns: dict[str, Any], expected: str | None) -> None:
    found = run_check("DIV001", **columns)
    assert (found.severity if found else None) == expected
