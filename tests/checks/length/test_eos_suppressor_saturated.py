import pytest

from grpo_doctor.testing import run_check


@pytest.mark.parametrize(
    ("rate", "expected"),
    [("0.5x6", None), ("0.51x6", "warning"), ("0.9x6", "warning"), ("0.91x6", "error"), ("0x3 1x2 0x3", None)],
)
def test_limits(rate: str, expected: str | None) -> None:
    found = run_check("LEN004", eos_suppressed_rate=rate)
    assert (found.severity if found else None) == expected


def test_message() -> None:
    found = run_check("LEN004", {"min_new_tokens": 14}, eos_suppressed_rate="1x3")
    assert found is not None
    assert found.message == (
        "100% of the responses would have ended before the minimum length and were forced to continue."
    )
    assert found.evidence["minimum"] == 14
