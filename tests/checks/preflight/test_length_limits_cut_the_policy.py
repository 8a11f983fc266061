from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"truncated_rate": "0.07x3 0x9"}, "In the first steps, 7% of the responses are truncated at the limit."),
        (
            {"eos_suppressed_rate": "0.4x3", "truncated_rate": "0.05x3"},
            "In the first steps, 40% of the responses would end before the minimum length.",
        ),
    ],
)
def test_message(columns: dict[str, Any], message: str) -> None:
    found = find("CFG009", **columns)
    assert (found.severity, found.onset_step, found.message) == ("info", 3, message)


@pytest.mark.parametrize(
    ("columns", "fires"),
    [
        ({"truncated_rate": "0.05x9"}, False),
        ({"eos_rate": "0.94x3"}, True),
        ({"truncated_rate": "0.1x2"}, False),
        ({"truncated_rate": "0x3 0.1x9"}, False),  # not at the start
        ({"truncated_rate": "0.1x3"}, True),
        ({"truncated_rate": "0.11x3"}, False),  # LEN003 says so
        ({"eos_suppressed_rate": "0.25x9"}, False),
        ({"eos_suppressed_rate": "0.26x9"}, True),
        ({"eos_suppressed_rate": "0.5x9"}, True),
        ({"eos_suppressed_rate": "0.51x9"}, False),  # LEN004 says so
    ],
)
def test_boundary(columns: dict[str, Any], fires: bool) -> None:
    assert (run_check("CFG009", **columns) is not None) is fires
